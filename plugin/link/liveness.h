// Whether an attachment is alive.
//
// Alive    An attachment lives as long as its namespace does: the recorded path still leads to the
//          recorded namespace, or anything else (a process, a mount elsewhere) still holds the
//          namespace that its host veth, or a stranger's, leads to. One that another command is
//          working on counts as living.
#pragma once

#include <string>
#include <vector>

#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::link {

[[nodiscard]] bool IsAlive(state::Host& host, const state::Record& record);

// Records of this node's attachments that are alive, but for `except`.
[[nodiscard]] std::vector<state::Record> LiveAttachmentsExcept(state::Host& host,
                                                               const AttachmentId& except);

}  // namespace nomad_bridge::link
