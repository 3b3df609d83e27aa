// Compares the node's ruleset with what live attachments should have, and repairs it. Every check
// of rules calls this code.
//
// Depth   One place decides how much is compared. It uses the checkpoint and the caller's scope.
// Atomic  A repair is a batch of its own, committed before the caller's change: it stays even if
//         that change is refused.
// Errors  kConflict if another network on the node uses another acceptMarkBit; kKernel; kTryAgain.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "base/attachment_id.h"
#include "base/mismatch.h"
#include "firewall/ruleset.h"
#include "plugin/link/host_veth.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

enum class Depth {
  // Nobody has changed a rule since our last commit.
  kNothing,
  // Somebody has changed a rule. Compares the static rules. If the hashes of our rules differ, also
  // compares tables, sets and chains. This is the same work with any number of attachments. Single
  // elements are compared by the CHECK of their owner.
  kTables,
  // Compares elements, too, and removes what is left over. Needed if a table of ours was lost or
  // replaced, or if this release or the policies in force want other tables.
  kEverything,
};

struct RulesetScope {
  // An attachment whose elements are about to be added or compared. What the node lacks for it is
  // created first.
  const state::Record* added = nullptr;
  Depth at_least = Depth::kNothing;
  // Elements of these attachments stay, even without a record or a link.
  std::set<AttachmentId> valid = {};
  // The host veths that existed shortly before, for a caller that looks at many attachments.
  const link::ListedVeths* listed = nullptr;
};

struct Converged {
  state::Checkpoint checkpoint;  // as in its file
  Depth depth = Depth::kNothing;
};

// The caller holds the rules' lock.
Converged Converge(state::Host& host, const RulesetScope& scope, Mismatches& mismatches);

// Makes the chains that `program` has for `judged`. This needs a commit of its own, before the
// commit of the elements that lead to the chains. During a commit, a packet may find an element of
// the new generation and still run the chain's rules of the previous generation. A chain that is
// new has no rules there, so the packet would pass. Does nothing if others have changed the rules
// meanwhile. The caller holds the rules' lock, and calls Converge() next.
void MakeChainsAhead(state::Host& host,
                     const policy::Program& program,
                     const std::vector<state::Record>& judged);

// Takes the rules' lock and calls Converge(), if there are rules or `scope` adds some.
Converged CheckRuleset(state::Host& host, const RulesetScope& scope, Mismatches& mismatches);

// Returns a mismatch for each element of `record` that is missing or different.
[[nodiscard]] std::vector<Mismatch> CompareElements(state::Host& host, const state::Record& record);

// Returns the checkpoint if it shows that nothing needs to be compared. Takes no lock.
[[nodiscard]] std::optional<state::Checkpoint> FindCurrentCheckpoint(state::Host& host);

// Applies `change` to the checkpoint's file, and takes the rules' lock for this. A failure is
// logged and ignored: a command then compares more than it must.
void UpdateCheckpoint(state::Host& host, const std::function<void(state::Checkpoint&)>& change);
// Writes the checkpoint. The caller holds the rules' lock.
void SaveCheckpoint(state::Host& host, const state::Checkpoint& checkpoint);

// Adds to the checkpoint the host addresses on which `record` publishes ports.
void NotePublished(const state::Record& record, state::Checkpoint& checkpoint);

}  // namespace nomad_bridge::rules
