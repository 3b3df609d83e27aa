// The node's side: its namespace, one socket of each kind in it, and our records. Opened once per
// command, and closed only at its end: see conntrack.h.
#pragma once

#include <optional>

#include "netlink/conntrack.h"
#include "netlink/netns.h"
#include "netlink/nft_socket.h"
#include "netlink/rtnl.h"
#include "plugin/record.h"

namespace nomad_bridge {

struct Host {
  Netns netns;
  Rtnl net;
  NftSocket nft;
  Records records;
  std::optional<Conntrack> conntrack;  // once it is needed

  [[nodiscard]] static Host Open();
};

}  // namespace nomad_bridge
