// Attachments by what an operator calls them.
//
// Names    a published port, an address, the name of a job or a group, JOB/GROUP, an id, an
//          interface on the host; of an id, a job, a group or an interface also a beginning of two
//          characters
// Errors   UsageError for a beginning that is too short; CannotTell if it names none, and we are
//         not root, or records are lost.
// Owner    the attachments are the inventory's.
#pragma once

#include <string>
#include <vector>

#include "plugin/cli/inventory.h"

namespace nomad_bridge::cli {

using Attachments = std::vector<const Attachment*>;

// Those of the one container that `word` names. None, and a remark on stderr, if it names none or
// several.
[[nodiscard]] Attachments FindOne(const Inventory& inventory, const std::string& word);

// Those of all containers that `word` names, if policies cannot tell them apart: they are in one
// namespace, job and group. Else none, and a remark on stderr.
[[nodiscard]] Attachments FindAlike(const Inventory& inventory, const std::string& word);

}  // namespace nomad_bridge::cli
