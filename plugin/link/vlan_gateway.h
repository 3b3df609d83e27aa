// The node's own place in a VLAN of a bridge: a link "<bridge>.<vlan>" on the bridge with the gateway's
// addresses, and the bridge's own membership in that VLAN.
//
// Why      The reference plugin makes a veth pair for it, one end a port of the bridge. What the
//          container sends then crosses the bridge and is routed after that, and with br_netfilter
//          passes the rules twice, which leaves its source address unmasqueraded on the way out. An
//          existing pair is used as it is.
// Shared   by every attachment in that VLAN, like the bridge: created or repaired, never undone.
// Errors   kConflict if a link of that name is something else; kKernel.
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

// A link that is there now, and what had to be done to it: "gateway 'nomad.100', which was down".
struct EnsuredLink {
  rtnl::Link link;
  std::vector<std::string> repairs;
};

// The link, up.
[[nodiscard]] EnsuredLink EnsureVlanGateway(state::Host& host,
                                            const rtnl::Link& bridge,
                                            const VlanGateway& gateway);

// What differs, one line each: "gateway 'nomad.100' is down".
[[nodiscard]] std::vector<std::string> DiffVlanGateway(state::Host& host,
                                                       const rtnl::Link& bridge,
                                                       const VlanGateway& gateway);

}  // namespace nomad_bridge::link
