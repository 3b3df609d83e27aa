// An attachment's rules in the kernel: its elements in our table added or removed, in one atomic
// commit.
//
// Checkpoint  The ruleset's generation after our last change is kept in a file (state/checkpoint.h).
//             While it is still the kernel's, nothing is looked up. When it is not (a flush, a reload,
//             another tool), what live attachments should have is compared with what the kernel has,
//             and repaired.
// Errors      Those of conflict.h; kConflict if another network on the node uses another acceptMarkBit;
//             kKernel; kTryAgain.
// Locks       Takes the rules' lock for each commit. Other attachments' locks only by TryLock.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file_lock.h"
#include "firewall/ruleset.h"
#include "plugin/rules/conflict.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

struct Committed {
  std::vector<StaleOwner> stale_owners;  // whose elements were removed or replaced
  state::Checkpoint checkpoint;
};

// Without a current checkpoint restores first, in a batch of its own, what live attachments lack, and
// logs it. Then makes `change` for `record`, whose making parts are live in its file from then on.
// Elements of stale attachments that are in its way are taken over; their owners are returned, for the
// caller to take down.
[[nodiscard]] Committed Commit(state::Host& host,
                               const state::Record& record,
                               firewall::Change change);

// The checkpoint; nullopt if the ruleset has been changed since, by whatever program.
[[nodiscard]] std::optional<state::Checkpoint> FindCurrentCheckpoint(state::Host& host);

// Whether the node forwards for `record`: only then it has a say in the mark's bit.
[[nodiscard]] bool HasForwardHook(const state::Record& record);

// Opens foreign firewalls for `record`, once until the ruleset is changed again, and logs what only
// the operator can do. Must be called without the rules' lock: other programs' tools take their time.
void UpdateForeignFirewalls(state::Host& host,
                            const state::Record& record,
                            state::Checkpoint checkpoint);

// Removes those of `elements` that have an owner and still belong to it.
void RemoveElements(state::Host& host, const std::vector<nft::Element>& elements);

// The elements in the kernel that belong to `id`, by a dump: for DEL without a record.
[[nodiscard]] std::vector<nft::Element> FindRulesOf(state::Host& host, const AttachmentId& id);

// What is missing or different in the rules of `record`, one mismatch each, changing nothing.
[[nodiscard]] std::vector<std::string> DiffRules(state::Host& host, const state::Record& record);

}  // namespace nomad_bridge::rules
