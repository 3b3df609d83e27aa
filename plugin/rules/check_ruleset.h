// Compares the node's ruleset with what live attachments should have, and repairs it. Every check
// of rules calls this code.
//
// Depth   The tables say what they are (firewall/about.h). EnsureTables() reads that, for an ADD.
//         CheckTables() also compares the hash of their rules. CheckRuleset() compares everything.
// Order   A repair is a batch of its own, committed before the caller's change: it stays even if
//         that change is refused.
// Errors  kConflict if another network on the node uses another acceptMarkBit; kKernel; kTryAgain;
//         kIo if the policies in force cannot be read: tables made without them would let in what
//         they refuse.
#pragma once

#include <vector>

#include "base/finding.h"
#include "plugin/link/host_veth.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// Returns whether the node forwards for `record`. If not, the record's mark bit has no effect.
[[nodiscard]] bool HasForwardHook(const state::Record& record);

// Compares tables, static rules, and the elements of all live attachments. Reads all records, and
// takes the rules' lock if something differs. Makes no table if the node has neither an attachment
// nor a table of ours. `listed`: the host veths that existed shortly before, for a caller that
// looks at many attachments.
void CheckRuleset(state::Host& host, Findings& findings, const link::ListedVeths* listed);

// Compares our tables, and then the static rules that `records` need. This is the same work with
// any number of attachments, and takes the rules' lock only if something differs. If our tables
// differ, compares everything. Returns whether it has.
bool CheckTables(state::Host& host, const std::vector<state::Record>& records, Findings& findings);

// The caller of these functions holds the rules' lock. None of them reports what it repairs.

// Makes sure that the tables are those of this release and of the policies in force, and that the
// static rules that `record` needs are in place. Does not look at the rules in our tables.
void EnsureTables(state::Host& host, const state::Record& record);

// Repairs what CheckRuleset() compares. `added`: an attachment whose elements are about to be
// added; what the node lacks for it is made, too.
void RepairRuleset(state::Host& host, const state::Record* added);

// Puts the policies in force that are in their file by now. `judged`: the live attachments as these
// policies judge them.
void SwitchPolicies(state::Host& host, const std::vector<state::Record>& judged);

// Returns a finding for each element of `record` that is missing or different.
[[nodiscard]] FindingList CompareElements(state::Host& host, const state::Record& record);

}  // namespace nomad_bridge::rules
