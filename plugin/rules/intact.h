// Whether the elements of all attachments are right, told without reading them: they were when they
// were last compared, and only commits of ours have changed some since.
//
// Shape   Checkpoint::intact: the hashes of the names of those attachments, joined by XOR, which a
//         commit that adds or removes one keeps up with, at the same cost with any number. Where it
//         could not, it is another than that of the records, and all are compared.
// Not     noticed: a record whose file somebody has written. `reconcile` and `doctor` compare all.
// Locks   The rules' lock is held where the checkpoint is written.
// Errors  kIo, kKernel.
#pragma once

#include <cstdint>
#include <vector>

#include "base/attachment_id.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

[[nodiscard]] std::uint64_t HashOf(const std::vector<AttachmentId>& ids);

// Whether `record` has elements once it is committed, and has none before.
[[nodiscard]] bool IsNew(const state::Record& record);
// The elements of `id` are in force from now on, or are not any more.
void Toggle(state::Checkpoint& checkpoint, const AttachmentId& id);

// Records are about to ask for other elements than are in force. Takes the rules' lock.
void NoteOtherElements(state::Host& host);

// Nobody has changed a rule since our last commit, nor, before that, an element.
[[nodiscard]] bool AreIntact(state::Host& host);
// The same, and the attachments that have elements are those that have a record.
[[nodiscard]] bool AreIntactOfAll(state::Host& host);

}  // namespace nomad_bridge::rules
