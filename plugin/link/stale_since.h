// When an attachment was first seen stale: only for what people look at.
//
// Shapes   /run/nomad-bridge/.dead/<host veth>  empty; its time of modification is the first sight
// Errors   Writing never fails a command: it is logged and ignored.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>

#include "base/attachment_id.h"

namespace nomad_bridge::link {

// Remembers these attachments, by their host veths, as stale from now on, unless they are known as
// such; and forgets all others.
void NoteStale(const std::set<std::string>& host_veths);
[[nodiscard]] std::optional<std::chrono::system_clock::time_point> FindStaleSince(
    const AttachmentId& id);

}  // namespace nomad_bridge::link
