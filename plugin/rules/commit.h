// An attachment's rules in the kernel: its elements in our table added or removed, in one atomic
// commit.
//
// Errors  Those of conflict.h and converge.h; kKernel; kTryAgain.
// Locks   Takes the rules' lock for each commit. Other attachments' locks only by TryLock.
#pragma once

#include <vector>

#include "base/mismatch.h"
#include "firewall/ruleset.h"
#include "plugin/rules/conflict.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

struct Committed {
  std::vector<StaleOwner> stale_owners;  // whose elements were removed or replaced
  state::Checkpoint checkpoint;
};

// Converges (converge.h), then adds all elements of `record`. With the commit, parts of `record`
// that are being made are live in its file. Elements of stale attachments that are in its way are
// taken over; their owners are returned, for the caller to take down.
[[nodiscard]] Committed Commit(state::Host& host, const state::Record& record);

// Removes the elements that `record` has and `rest`, which is what stays of it, does not need.
// Elements that all attachments behind an interface share go, too, if nobody needs them any more.
void RemoveElements(state::Host& host, const state::Record& record, const state::Record& rest);
// Removes those of `elements` that have an owner and still belong to it. `gone`: the attachment
// that is being removed; then shared elements that no other attachment needs go, too.
void RemoveElements(state::Host& host,
                    const std::vector<nft::Element>& elements,
                    const AttachmentId* gone = nullptr);

}  // namespace nomad_bridge::rules
