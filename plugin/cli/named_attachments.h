// Finds attachments by the names that an operator uses.
//
// Names    a published port, an address, the name of a job or a group, JOB/GROUP, an id, an
//          interface on the host. Ids, jobs, groups and interfaces may be shortened to a prefix of
//          two or more characters.
// Errors   UsageError if a prefix is too short. CannotTell if nothing has the name as far as we can
//          see, but we are not root, or records are lost.
// Owner    The inventory owns the attachments.
#pragma once

#include <string>
#include <vector>

#include "plugin/cli/inventory.h"

namespace nomad_bridge::cli {

using Attachments = std::vector<const Attachment*>;

// Returns the attachments of the one container that `word` names. Returns none, with a remark on
// stderr, if `word` names no container or several.
[[nodiscard]] Attachments FindOne(const Inventory& inventory, const std::string& word);

// Returns the attachments of all containers that `word` names, if policies cannot tell the
// containers apart: same namespace, job and group. Otherwise returns none, with a remark on stderr.
[[nodiscard]] Attachments FindAlike(const Inventory& inventory, const std::string& word);

}  // namespace nomad_bridge::cli
