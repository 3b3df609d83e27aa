// Checks whether policies see the traffic between two ports of a bridge. This traffic passes the
// forward hook of nf_tables only if the bridge hands it over. The bridge's own flags, or the
// sysctls of br_netfilter, make the bridge do so.
//
// Flags   While policies are in force, the flags of a bridge of ours are turned on, whatever the
//         sysctls say. They stay on afterwards. On any other bridge the operator decides: with the
//         flags, packets of others on that bridge would pass through all rules of the node.
#pragma once

#include <optional>
#include <vector>

#include "base/finding.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/config/config.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// Checks that policies see the traffic of `bridge`, to which `record` belongs. If not, adds a
// finding in area kPolicy. Flags of a bridge of ours are repaired.
void CheckBridgeNetfilter(state::Host& host,
                          const rtnl::Link& bridge,
                          const state::Record& record,
                          Findings& findings);

// Throws if there is a finding that CheckBridgeNetfilter() cannot repair: kKernel on a bridge of
// ours, kConflict on any other. So nobody creates an attachment that policies apply to but whose
// traffic they do not see.
void RequireBridgeNetfilter(state::Host& host,
                            const rtnl::Link& bridge,
                            const state::Record& record);

// Returns a finding if a policy selects `record`, and policies cannot be in force for it.
[[nodiscard]] std::optional<Finding> FindUnjudged(state::Host& host, const state::Record& record);

// Returns a finding if policies apply to `record`, and it may send VLAN tags (vlanTrunk). A bridge
// does not hand over tagged traffic to nf_tables, so no policy sees it.
[[nodiscard]] std::optional<Finding> FindTaggedTraffic(state::Host& host,
                                                       const state::Record& record);

// Returns what CheckBridgeNetfilter(), FindUnjudged() and FindTaggedTraffic() find for `records`,
// once per bridge. Includes bridges of another plugin, if their attachments have only rules of
// ours. Only informs people, and refuses nothing.
[[nodiscard]] FindingList FindUnseenTraffic(state::Host& host,
                                            const std::vector<state::Record>& records);

// Handles the config keys that need the bridge family of nf_tables, if the kernel lacks it. Returns
// `config` without those that are only a default (sourceCheck), and names them on stderr. Throws
// kUnsupportedField for those that the config itself requests (sourceCheck, ingressPolicy
// isolated).
[[nodiscard]] config::Config WithoutUnsupportedDefaults(config::Config config, state::Host& host);

}  // namespace nomad_bridge::rules
