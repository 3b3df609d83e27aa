// The attachments that GC must keep.
//
// Shapes  "cni.dev/valid-attachments" (libcni 1.2.0 also "cni.dev/attachments"): an array of
//         {"containerID", "ifname"}; Go writes an empty one as null.
// Errors  kInvalidConfig naming an element of another shape.
// Source  CNI specification 1.1.0, "GC".
#pragma once

#include <optional>
#include <set>

#include "base/attachment_id.h"
#include "plugin/cni/request.h"

namespace nomad_bridge::cni {

// nullopt if the request has no such key at all, which is not the same as an empty array.
[[nodiscard]] std::optional<std::set<AttachmentId>> FindValidAttachments(const Request& request);

}  // namespace nomad_bridge::cni
