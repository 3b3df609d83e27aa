// Adds an attachment's elements to our table, or removes them, in one atomic commit.
//
// Errors  Those of conflict.h and converge.h; kKernel; kTryAgain.
// Locks   Takes the rules' lock for each commit. Other attachments' locks are only tried.
#pragma once

#include <vector>

#include "base/mismatch.h"
#include "firewall/ruleset.h"
#include "plugin/rules/conflict.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

struct Committed {
  std::vector<StaleOwner> stale_owners;  // owners of elements that were removed or replaced
  state::Checkpoint checkpoint;
};

// Converges (converge.h), then adds all elements of `record`. With the commit, parts of `record` in
// phase kMaking become live in its file. Conflicting elements of stale attachments are taken over;
// their owners are returned, for the caller to remove.
[[nodiscard]] Committed Commit(state::Host& host, const state::Record& record);

// Removes the elements of `record`, except those that `rest` needs: `rest` has the parts that stay.
// Also removes elements that all attachments behind an interface share, if no attachment needs them
// any more.
void RemoveElements(state::Host& host, const state::Record& record, const state::Record& rest);
// Removes the `elements` that have an owner and still belong to that owner. If `gone` names the
// attachment that is being removed, also removes shared elements that no other attachment needs.
void RemoveElements(state::Host& host,
                    const std::vector<nft::Element>& elements,
                    const AttachmentId* gone = nullptr);

}  // namespace nomad_bridge::rules
