// The node's side: its namespace, one socket of each kind in it, and our records. Opened once per
// command.
#pragma once

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

  [[nodiscard]] static Host Open();
};

}  // namespace nomad_bridge
