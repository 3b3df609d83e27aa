// The node's side: its namespace, one socket of each kind in it, and our records. Opened once per
// command, and closed only at its end: see conntrack.h.
#pragma once

#include <optional>

#include "netlink/conntrack/conntrack.h"
#include "netlink/core/netns.h"
#include "netlink/nft/socket.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/state/checkpoint.h"
#include "plugin/state/record_store.h"

namespace nomad_bridge::state {

struct Host {
  netlink::Netns netns;
  rtnl::Socket net;
  nft::Socket nft;
  Records records;
  CheckpointFile checkpoint;
  std::optional<conntrack::Conntrack> conntrack;  // once it is needed

  [[nodiscard]] static Host Open();
};

}  // namespace nomad_bridge::state
