// The node's own place in a VLAN of a bridge: a link "<bridge>.<vlan>" on the bridge with the
// gateway's addresses, and the bridge's own membership in that VLAN.
//
// Why      The reference plugin makes a veth pair for it, one end a port of the bridge. What the
//          container sends then crosses the bridge and is routed after that, and with br_netfilter
//          passes the rules twice, which leaves its source address unmasqueraded on the way out. An
//          existing pair is used as it is.
// Shared   by every attachment in that VLAN, like the bridge: created or repaired, never undone.
// Errors   kConflict if a link of that name is something else; kKernel.
#pragma once

#include <optional>

#include "base/mismatch.h"
#include "plugin/config/config.h"
#include "plugin/state/host.h"

namespace nomad_bridge::link {

// There, a member of its VLAN, and up. Returns it as it is then; nullopt if it is missing.
[[nodiscard]] std::optional<rtnl::Link> CheckVlanGateway(state::Host& host,
                                                         const rtnl::Link& bridge,
                                                         const config::LinkSpec& spec,
                                                         Mismatches& mismatches);

}  // namespace nomad_bridge::link
