// An attachment's rules in the kernel: its elements in our table added or removed, in one atomic
// commit.
//
// Errors  Those of conflict.h and converge.h; kKernel; kTryAgain.
// Locks   Takes the rules' lock for each commit. Other attachments' locks only by TryLock.
#pragma once

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

// Converges (converge.h), then makes `change` for `record`, whose making parts are live in its file from
// then on. Elements of stale attachments that are in its way are taken over; their owners are returned,
// for the caller to take down.
[[nodiscard]] Committed Commit(state::Host& host,
                               const state::Record& record,
                               firewall::Change change);

// Whether an element of the live parts of `record` is missing, or different.
[[nodiscard]] bool IsAnyMissing(state::Host& host, const state::Record& record);

// Opens foreign firewalls for `record`, once until the ruleset is changed again, and logs what only
// the operator can do. Must be called without the rules' lock: other programs' tools take their time.
void UpdateForeignFirewalls(state::Host& host,
                            const state::Record& record,
                            state::Checkpoint checkpoint);

// Removes those of `elements` that have an owner and still belong to it.
void RemoveElements(state::Host& host, const std::vector<nft::Element>& elements);

}  // namespace nomad_bridge::rules
