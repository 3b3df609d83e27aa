// The node's ruleset brought to what the live attachments should have. Whoever repairs a rule does it
// here.
//
// Scope   Nothing is looked at while nobody has changed a rule since our last commit (the checkpoint).
//         After a foreign change our table and the static rules are compared, whatever the number of
//         attachments; single elements are then their owner's affair (CHECK). Everything is compared if
//         the table was lost or replaced, or is another release's.
// Atomic  In a batch of its own, before the caller's change: one that is refused has healed the others
//         all the same.
// Errors  kConflict if another network on the node uses another acceptMarkBit; kKernel; kTryAgain.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/attachment_id.h"
#include "firewall/ruleset.h"
#include "netlink/nft/change_socket.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// So that `record` can be added to. Returns the checkpoint as it is in its file. The rules' lock is held
// by the caller.
[[nodiscard]] state::Checkpoint Converge(state::Host& host, const state::Record& record);

// Whether `changes`, all since the checkpoint among them, are of other tables than ours.
[[nodiscard]] bool AreForeign(state::Host& host, const nft::Changes& changes);
// After those: as Converge(), for nobody. Takes the rules' lock, and returns what it repaired.
[[nodiscard]] std::vector<std::string> ConvergeAfterForeignChanges(state::Host& host);

// Compares everything, and removes what nothing explains: elements of owners who have neither a record
// nor a link and are not among `valid`, and of addresses that are another's. Takes the rules' lock.
// Logs what it repaired, and returns it: one mismatch each.
// NOLINTNEXTLINE(modernize-use-nodiscard): it is in the log
std::vector<std::string> ConvergeAll(state::Host& host, const std::set<AttachmentId>& valid);
// The same without changing anything.
[[nodiscard]] std::vector<std::string> DiffAll(state::Host& host);

// The checkpoint, if nobody has changed a rule since.
[[nodiscard]] std::optional<state::Checkpoint> FindCurrentCheckpoint(state::Host& host);

// Changes it in its file, under the rules' lock. Failing is logged and ignored: a command then compares
// more than it must.
void UpdateCheckpoint(state::Host& host, const std::function<void(state::Checkpoint&)>& change);
// The same for one who holds the lock.
void SaveCheckpoint(state::Host& host, const state::Checkpoint& checkpoint);

// Adds to `checkpoint` where `record` publishes ports.
void NotePublished(const state::Record& record, state::Checkpoint& checkpoint);

// What is missing or different in the rules of `record`, one mismatch each, changing nothing.
[[nodiscard]] std::vector<std::string> DiffRules(state::Host& host, const state::Record& record);

// For messages: "tcp . 8080 in port4 of veth3f2a91c04d7e".
[[nodiscard]] std::string NameOf(const nft::Element& element);

}  // namespace nomad_bridge::rules
