// The node's ruleset, compared with what the live attachments should have: the one check of rules.
//
// Depth   How much is compared is decided in one place, by the checkpoint and the caller's scope.
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
  // Somebody has: the static rules are compared, and, if our rules are not as they were, tables,
  // sets and chains. It is the same work with any number of attachments. Single elements are left
  // to their owner's CHECK.
  kTables,
  // Elements, too, and what is left over is removed. Needed if a table of ours was lost or
  // replaced, or if this release, or the policies in force, want other tables.
  kEverything,
};

struct RulesetScope {
  // An attachment whose elements are about to be added or compared: what the node lacks for it is
  // made first.
  const state::Record* added = nullptr;
  Depth at_least = Depth::kNothing;
  // Elements of these stay, although they may have neither a record nor a link.
  std::set<AttachmentId> valid = {};
  // Where many attachments are looked at: the host veths that were there shortly before.
  const link::ListedVeths* listed = nullptr;
};

struct Converged {
  state::Checkpoint checkpoint;  // as it is in its file
  Depth depth = Depth::kNothing;
};

// The caller holds the rules' lock.
Converged Converge(state::Host& host, const RulesetScope& scope, Mismatches& mismatches);

// Makes the chains that `program` has for `judged`, ahead of the elements that lead to them. While
// the kernel commits, a packet may find an element of the new generation and run the rules of the
// one before: a chain made in the same commit has none there, and would let the packet pass. Does
// nothing if others have changed the rules meanwhile. The caller holds the rules' lock, and
// converges next.
void MakeChainsAhead(state::Host& host,
                     const policy::Program& program,
                     const std::vector<state::Record>& judged);

// Takes the rules' lock and calls Converge(), if there are rules or `scope` adds some.
Converged CheckRuleset(state::Host& host, const RulesetScope& scope, Mismatches& mismatches);

// The elements of `record` that are missing or different.
[[nodiscard]] std::vector<Mismatch> CompareElements(state::Host& host, const state::Record& record);

// The checkpoint, if nothing needs to be compared by it: without the rules' lock.
[[nodiscard]] std::optional<state::Checkpoint> FindCurrentCheckpoint(state::Host& host);

// Applies `change` to the checkpoint in its file, under the rules' lock, which it takes. A failure
// is logged and ignored: a command then compares more than it must.
void UpdateCheckpoint(state::Host& host, const std::function<void(state::Checkpoint&)>& change);
// Writes the checkpoint; the caller holds the lock.
void SaveCheckpoint(state::Host& host, const state::Checkpoint& checkpoint);

// Adds to `checkpoint` where `record` publishes ports.
void NotePublished(const state::Record& record, state::Checkpoint& checkpoint);

}  // namespace nomad_bridge::rules
