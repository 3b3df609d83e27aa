// Checks whether policies see the traffic between two ports of a bridge. It passes the forward hook
// of nf_tables only if the bridge hands it over, by its own flags or by the sysctls of
// br_netfilter.
//
// Flags   On a bridge of ours the flags are turned on while policies are in force, whatever the
//         sysctls say, and stay on. On any other bridge the operator decides: with the flags,
//         others' packets on that bridge would pass through all rules of the node.
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

// Throws for a mismatch that CheckBridgeNetfilter() cannot repair: kKernel on a bridge of ours,
// kConflict on any other. An attachment that policies apply to is not made where they would not see
// its traffic.
void RequireBridgeNetfilter(state::Host& host,
                            const rtnl::Link& bridge,
                            const state::Record& record);

// Finds traffic with VLAN tags (vlanTrunk): it is not handed over to nf_tables, so nothing judges
// it.
[[nodiscard]] std::optional<Mismatch> FindTaggedTraffic(state::Host& host,
                                                        const state::Record& record);

// Returns what CheckBridgeNetfilter() and FindTaggedTraffic() find for `records`, once per bridge.
// Includes bridges of another plugin whose attachments only have our rules. For people: refuses
// nothing.
[[nodiscard]] std::vector<Mismatch> FindUnseenTraffic(state::Host& host,
                                                      const std::vector<state::Record>& records);

}  // namespace nomad_bridge::rules
