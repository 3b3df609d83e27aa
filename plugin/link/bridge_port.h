// The host end of an attachment as a port of its bridge: flags, VLANs, and the one source MAC that
// is let in. ADD sets it as the record describes; CHECK and later ADDs repair it from there.
//
// Errors   kKernel.
#pragma once

#include <string>
#include <vector>

#include "base/ip.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/state/record.h"

namespace nomad_bridge::link {

// Idempotent. `mac` is the container's. `change`: what else is to change of the link, in the same
// message.
void SetPort(rtnl::Socket& net,
             const rtnl::Link& veth,
             const state::BridgePort& port,
             const Mac& mac,
             rtnl::LinkChange change = {});

// What differs: "hairpin mode", "isolation", "VLANs", "MAC check".
[[nodiscard]] std::vector<std::string> DiffBridgePort(rtnl::Socket& net,
                                                      const rtnl::Link& veth,
                                                      const state::BridgePort& port,
                                                      const Mac& mac);

}  // namespace nomad_bridge::link
