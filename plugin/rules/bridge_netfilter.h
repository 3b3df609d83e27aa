// Whether policies see the traffic between two ports of a bridge: it does not pass nf_tables'
// forward hook unless the bridge hands it over, by its own flags or by the sysctls of br_netfilter.
//
// Flags   On a bridge of ours they are turned on while policies are in force, whatever the sysctls
//         say, and stay on. On a bridge that is not ours only its operator decides: with the flags
//         the packets of others on it would pass all rules of the node.
#pragma once

#include <optional>
#include <vector>

#include "base/mismatch.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// Checks that policies see the traffic of `bridge`, to which `record` belongs. If not, adds a
// mismatch in area kPolicy. Flags of a bridge of ours are repaired.
void CheckBridgeNetfilter(state::Host& host,
                          const rtnl::Link& bridge,
                          const state::Record& record,
                          Mismatches& mismatches);

// Throws for what that cannot repair, kKernel on a bridge of ours, kConflict on another one: an
// attachment that policies are about is not made where they would not see its traffic.
void RequireBridgeNetfilter(state::Host& host,
                            const rtnl::Link& bridge,
                            const state::Record& record);

// Frames with VLAN tags are not handed over to nf_tables: nothing judges those of a vlanTrunk.
[[nodiscard]] std::optional<Mismatch> FindTaggedTraffic(state::Host& host,
                                                        const state::Record& record);

// What those two find of `records`, once for each bridge, and the same of bridges of another plugin
// whose attachments have only our rules. Nothing is refused by it: it is for people.
[[nodiscard]] std::vector<Mismatch> FindUnseenTraffic(state::Host& host,
                                                      const std::vector<state::Record>& records);

}  // namespace nomad_bridge::rules
