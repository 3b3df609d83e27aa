// The host end of an attachment as a port of its bridge: flags, VLANs, and the one MAC that may
// come in. Set by ADD, kept in the record, put right from there by whoever finds it changed.
#pragma once

#include <string>
#include <vector>

#include "base/ip.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/state/record.h"

namespace nomad_bridge::link {

// Makes it so; again is fine. `mac` is the container's. `change`: what else there is to change of the
// link, in the same message.
void SetPort(rtnl::Socket& net,
             const rtnl::Link& veth,
             const state::BridgePort& port,
             const Mac& mac,
             rtnl::LinkChange change = {});

// What is not so: "hairpin mode", "isolation", "VLANs", "MAC check".
[[nodiscard]] std::vector<std::string> DiffBridgePort(rtnl::Socket& net,
                                                      const rtnl::Link& veth,
                                                      const state::BridgePort& port,
                                                      const Mac& mac);

}  // namespace nomad_bridge::link
