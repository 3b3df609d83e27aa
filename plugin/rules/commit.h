// Adds an attachment's elements to our tables, or removes them, in one atomic commit.
//
// Errors  Those of conflict.h and check_ruleset.h; kKernel.
// Locks   Takes the rules' lock for each commit. Other attachments' locks are only tried.
#pragma once

#include <vector>

#include "plugin/rules/conflict.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// Whether an attachment's ADD needs another commit after this one.
enum class Finishes { kNo, kYes };

// Makes sure that the tables are right (check_ruleset.h), then adds all elements of `record`. With
// the commit that finishes, parts of `record` in phase kMaking become live in its file. Conflicting
// elements of stale attachments are taken over. Returns the owners that have a record, for the
// caller to remove.
[[nodiscard]] std::vector<StaleOwner> Commit(state::Host& host,
                                             const state::Record& record,
                                             Finishes finishes);

// Removes the elements of `parts` of `record`, and shared elements that no attachment needs any
// more. Elements that belong to another owner by now stay. Compares nothing else, because a DEL has
// to work whatever the rules look like.
void RemoveElements(state::Host& host, const state::Record& record, const cni::Parts& parts);

}  // namespace nomad_bridge::rules
