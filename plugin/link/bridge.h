// The bridge of a network and the node's own place on it.
//
// Shared   The bridge, its addresses and the forwarding sysctls belong to every attachment: created
//          or repaired, never undone.
// Errors   kConflict if a link or an address is somebody else's; kInvalidConfig if the link of the
//          bridge's name is no bridge, or one without the VLAN filtering that the config needs;
//          kKernel.
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

// Creates or adopts the bridge and, in a VLAN with a gateway, the gateway's link; sets both up. The
// gateway gets `gateways` as its addresses (none if the network is no gateway), and forwarding is
// turned on for their families. Other IPv4 addresses and overlapping IPv6 ones are an error, or
// removed as forceAddress says; those that a live attachment but `except` needs stay. Logs what it
// repaired, if an attachment uses the gateway already.
[[nodiscard]] Segment EnsureBridge(state::Host& host,
                                   const config::LinkConfig& config,
                                   const std::vector<Cidr>& gateways,
                                   const AttachmentId& except);

}  // namespace nomad_bridge::link
