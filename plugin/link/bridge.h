// The bridge of a network and the node's own place on it.
//
// Shared   The bridge, its addresses and the forwarding sysctls belong to every attachment: created
//          or repaired, never undone.
// Errors   kConflict if a link or an address is somebody else's; kInvalidConfig if the bridge's
//          name is no bridge; kKernel.
#pragma once

#include <vector>

#include "netlink/rtnl/rtnl.h"
#include "plugin/config/config.h"
#include "plugin/state/host.h"

namespace nomad_bridge::link {

// The bridge, and the node's own place on it: the bridge itself, or the gateway of a VLAN.
struct Segment {
  rtnl::Link bridge;
  rtnl::Link gateway;
};

// Makes or adopts the bridge and, in a VLAN with a gateway, the gate; both up. The gate has
// `gateways` as its addresses (none if the network is no gateway), and forwarding is turned on for
// their families. Other IPv4 addresses and overlapping IPv6 ones are an error, or removed with
// forceAddress; those which another living attachment on the same bridge needs stay. Says on stderr
// what was mended: what was not so although an attachment other than `except` is there that needs it.
[[nodiscard]] Segment EnsureBridge(state::Host& host,
                                   const config::LinkConfig& config,
                                   const std::vector<Cidr>& gateways,
                                   const AttachmentId& except);

}  // namespace nomad_bridge::link
