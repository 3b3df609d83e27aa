// Finds attachments by the names that an operator uses.
//
// Names    a published port, an address, the name of a job or a group, JOB/GROUP, an id, an
//          interface on the host. Ids, jobs, groups and interfaces may be shortened to two or more
//          characters.
// Errors   UsageError for a beginning that is too short; CannotTell if the word names none, and we
//          are not root, or records are lost.
// Owner    The inventory owns the attachments.
#pragma once

#include <string>
#include <vector>

#include "plugin/cli/inventory.h"

namespace nomad_bridge::cli {

using Attachments = std::vector<const Attachment*>;

// Returns the attachments of the one container that `word` names. Returns none, with a remark on
// stderr, if it names none or several.
[[nodiscard]] Attachments FindOne(const Inventory& inventory, const std::string& word);

// Returns the attachments of all containers that `word` names, if policies cannot tell them apart:
// same namespace, job and group. Otherwise returns none, with a remark on stderr.
[[nodiscard]] Attachments FindAlike(const Inventory& inventory, const std::string& word);

}  // namespace nomad_bridge::cli
