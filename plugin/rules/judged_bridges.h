// Whether policies see what passes between two ports of a bridge: it does not pass nf_tables'
// forward hook unless the bridge hands it over, by its own flags or by the sysctls of br_netfilter.
//
// Flags   Of a bridge of ours they are on while policies are in force, whatever the sysctls say.
//         How they were before is in the checkpoint, and is so again with the last policy gone. Of
//         a bridge that is not ours only its operator decides: what strangers on it send would pass
//         all rules of the node.
// Locks   The rules' lock for the checkpoint, unless the caller holds it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/mismatch.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/rules/converge.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// The bridge of `record` as policies see it: a mismatch in area kPolicy if they do not. Flags of a
// bridge of ours are repaired.
void CheckJudgedBridge(state::Host& host,
                       const rtnl::Link& bridge,
                       const state::Record& record,
                       Mismatches& mismatches,
                       RulesLock lock = RulesLock::kTake);

// Throws for what that cannot repair, kKernel of a bridge of ours, kConflict of another one: an
// attachment that is to be judged is not made where nobody would see its traffic.
void RequireJudgedBridge(state::Host& host, const rtnl::Link& bridge, const state::Record& record);

// Without policies: flags that were turned on for them are as they were before.
void CheckFlagsGivenBack(state::Host& host,
                         Mismatches& mismatches,
                         RulesLock lock = RulesLock::kTake);

// Of the bridges of `records`, each once: what CheckJudgedBridge() finds, and the same of those
// that another plugin made for attachments that we only have the rules of. That refuses nothing: it
// is for people.
[[nodiscard]] std::vector<Mismatch> FindUnseenTraffic(state::Host& host,
                                                      const std::vector<state::Record>& records);

}  // namespace nomad_bridge::rules
