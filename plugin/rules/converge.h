// The node's ruleset, compared with what the live attachments should have: the one check of rules.
//
// Extent  Nothing is looked at while nobody has changed a rule since our last commit (the
//         checkpoint). After a foreign change our table and the static rules are compared, whatever
//         the number of attachments; single elements are then their owner's affair (CHECK).
//         Everything is compared if the table was lost or replaced, is another release's, or the
//         caller asks for it.
// Atomic  In a batch of its own, before the caller's change: one that is refused has healed the
//         others all the same.
// Errors  kConflict if another network on the node uses another acceptMarkBit; kKernel; kTryAgain.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "base/attachment_id.h"
#include "base/mismatch.h"
#include "firewall/ruleset.h"
#include "netlink/nft/change_socket.h"
#include "plugin/link/host_veth.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

struct Extent {
  // So that its elements can be added.
  const state::Record* added = nullptr;
  // Also elements, and the removal of what nothing explains: elements of owners who have neither a
  // record nor a link and are not among `valid`, and of addresses that are another's.
  bool is_whole = false;
  std::set<AttachmentId> valid;
  // Where many attachments are looked at: the host veths that were there shortly before.
  const link::ListedVeths* listed = nullptr;
  // Up to this generation only tables of others were changed since our last commit: AreForeign().
  std::optional<std::uint32_t> foreign_until = std::nullopt;
};

struct Converged {
  state::Checkpoint checkpoint;  // as it is in its file
  bool is_whole = false;         // all elements were compared
};

// The rules' lock is held by the caller.
[[nodiscard]] Converged Converge(state::Host& host, const Extent& extent, Mismatches& mismatches);

// The same under the lock, which it takes, where there are rules or are to be.
state::Checkpoint CheckRuleset(state::Host& host, const Extent& extent, Mismatches& mismatches);

// Those of its elements that are missing or different.
[[nodiscard]] std::vector<Mismatch> CompareElements(state::Host& host, const state::Record& record);

// Whether `changes`, all since the checkpoint among them, are of other tables than ours.
[[nodiscard]] bool AreForeign(state::Host& host, const nft::Changes& changes);

// The checkpoint, if nobody has changed a rule since.
[[nodiscard]] std::optional<state::Checkpoint> FindCurrentCheckpoint(state::Host& host);

// Whether the caller holds the rules' lock.
enum class RulesLock { kTake, kHeld };

// Changes it in its file, under the rules' lock. Failing is logged and ignored: a command then
// compares more than it must.
void UpdateCheckpoint(state::Host& host,
                      const std::function<void(state::Checkpoint&)>& change,
                      RulesLock lock = RulesLock::kTake);
// The same for one who holds the lock.
void SaveCheckpoint(state::Host& host, const state::Checkpoint& checkpoint);

// Adds to `checkpoint` where `record` publishes ports.
void NotePublished(const state::Record& record, state::Checkpoint& checkpoint);

}  // namespace nomad_bridge::rules
