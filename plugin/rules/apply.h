// An attachment's rules in the kernel: its elements in our table added or removed, in one atomic
// commit.
//
// Trust    The ruleset's generation after our last change is kept in a file; while it is still the
//          kernel's, nothing has to be looked at. When it is not (a flush, a reload, another tool),
//          what living attachments should have is compared with what the kernel has, and mended.
// Errors   kConflict if an address or a host port belongs to a living attachment, naming it by its
//          labels, or if another network on the node uses another acceptMarkBit; kKernel.
// Locks    Takes the rules' lock for each commit. Of other attachments' locks only by TryLock.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file_lock.h"
#include "firewall/ruleset.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// A dead attachment in the way of ours, kept from any other command while it is taken over.
struct StaleOwner {
  RangeLock lock;
  state::Record record;
};

struct Committed {
  std::vector<StaleOwner> stale_owners;  // in the way of the change, and widening it
  state::Checkpoint checkpoint;
};

// Puts `change`, the elements of `record`, in force. What dead attachments hold of it is taken over;
// they are returned, for the caller to take down. Says on stderr what was mended. `living` is asked
// for everybody else's elements if the ruleset cannot be trusted.
[[nodiscard]] Committed Commit(state::Host& host,
                               const state::Record& record,
                               firewall::Change& change,
                               const firewall::ListDesired& living);

// The trust of our last change; nullopt also if anybody has changed the ruleset since.
[[nodiscard]] std::optional<state::Checkpoint> FindCurrentCheckpoint(state::Host& host);

// Only who is forwarded for says which bit marks it.
[[nodiscard]] bool HasForwardHook(const state::Record& record);

// Others decide after us; what they are told, and what cannot be helped, holds until the ruleset is
// changed again. Their tools take their time, so nobody's lock is held meanwhile.
void UpdateForeignFirewalls(state::Host& host,
                            const state::Record& record,
                            state::Checkpoint checkpoint);

// Takes `elements` out, where they still belong to whom their comments name.
void RemoveElements(state::Host& host, const std::vector<nft::Element>& elements);

// The elements in the kernel that belong to `id`, by a dump: for DEL without a record.
[[nodiscard]] std::vector<nft::Element> FindRulesOf(state::Host& host, const AttachmentId& id);

// The part that an element in our table belongs to; nullopt for what all parts share.
[[nodiscard]] std::optional<cni::Part> PartOf(const nft::Element& element);

// What is missing of the rules of `record`, one phrase each, changing nothing.
[[nodiscard]] std::vector<std::string> DiffRules(state::Host& host, const state::Record& record);

// Two attachments of one container, in two networks or under two interface names.
[[nodiscard]] bool IsSameContainer(const AttachmentId& id, const state::Record& record);

}  // namespace nomad_bridge::rules
