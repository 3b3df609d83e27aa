// The node's own place in a VLAN of a bridge: a link "<bridge>.<vlan>" on the bridge, which has the
// gateway's addresses, and the bridge's own membership in that VLAN.
//
// Why      The reference plugin makes a veth pair for it, one end a port of the bridge. What the
//          container sends then crosses the bridge and is routed after that, and with br_netfilter
//          passes the rules twice, which leaves its address as it is on the way out. A pair that is
//          there is taken as it is.
// Shared   by every attachment in that VLAN, as the bridge is: made or put right, never undone.
// Errors   kConflict if a link of that name is somebody else's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plugin/state/host.h"

namespace nomad_bridge::link {

struct VlanGateway {
  std::string name;  // "nomad.100"
  std::uint16_t vlan = 0;
};

// The link, up, whatever of it was missing. What was put right is appended to `changes`, a phrase
// each.
[[nodiscard]] rtnl::Link EnsureVlanGateway(state::Host& host,
                                           const rtnl::Link& bridge,
                                           const VlanGateway& gateway,
                                           std::vector<std::string>& changes);

// What is not so, one phrase each.
[[nodiscard]] std::vector<std::string> DiffVlanGateway(state::Host& host,
                                                       const rtnl::Link& bridge,
                                                       const VlanGateway& gateway);

}  // namespace nomad_bridge::link
