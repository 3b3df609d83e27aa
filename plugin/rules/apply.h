// An attachment's rules in the kernel: its elements in our table added or removed, in one atomic
// commit.
//
// Checkpoint  The ruleset's generation after our last change is kept in a file (state/checkpoint.h).
//             While it is still the kernel's, nothing is looked up. When it is not (a flush, a reload,
//             another tool), what live attachments should have is compared with what the kernel has,
//             and repaired.
// Errors      kConflict if an address or a host port belongs to a live attachment, naming it by its
//             labels, or if another network on the node uses another acceptMarkBit; kKernel;
//             kTryAgain.
// Locks       Takes the rules' lock for each commit. Other attachments' locks only by TryLock.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file_lock.h"
#include "firewall/ruleset.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// A stale attachment in the way of ours, locked against any other command.
struct StaleOwner {
  RangeLock lock;
  state::Record record;
};

struct Committed {
  std::vector<StaleOwner> stale_owners;  // whose elements were removed or replaced
  state::Checkpoint checkpoint;
};

// Makes `change` for `record`. Elements of stale attachments that are in its way are taken over; their
// owners are returned, for the caller to take down. Without a current checkpoint, what live attachments
// but `except` lack is restored in the same batch. Logs what was repaired.
[[nodiscard]] Committed Commit(state::Host& host,
                               const state::Record& record,
                               firewall::Change change,
                               const AttachmentId& except);

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

// Whether `id` is another attachment of the container of `record`: in another network, or under
// another interface name.
[[nodiscard]] bool IsSameContainer(const AttachmentId& id, const state::Record& record);

}  // namespace nomad_bridge::rules
