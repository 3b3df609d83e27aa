// The node's own interface in a VLAN of a bridge: a link "<bridge>.<vlan>" on the bridge with the
// gateway's addresses, and the bridge's own membership in that VLAN.
//
// Why      The reference plugin creates a veth pair instead, with one end as a port of the bridge.
//          A packet of the container then crosses the bridge before it is routed. With br_netfilter
//          it passes the rules twice, so its source address is not masqueraded on the way out. An
//          existing pair is used as it is.
// Shared   All attachments in the VLAN share the link, like the bridge. It is created or repaired,
//          and never undone.
// Errors   kConflict if a link of that name is something else; kKernel.
#pragma once

#include <optional>

#include "base/finding.h"
#include "plugin/config/config.h"
#include "plugin/state/host.h"

namespace nomad_bridge::link {

// Checks that the link exists, is a member of its VLAN, and is up. Returns the link as the check
// leaves it; nullopt if it is missing.
[[nodiscard]] std::optional<rtnl::Link> CheckVlanGateway(state::Host& host,
                                                         const rtnl::Link& bridge,
                                                         const config::LinkSpec& spec,
                                                         Findings& findings);

}  // namespace nomad_bridge::link
