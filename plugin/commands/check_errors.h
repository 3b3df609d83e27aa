// What every CHECK needs: something to compare with, and a way to say what is different.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plugin/config/config.h"
#include "plugin/state/record.h"

namespace nomad_bridge::commands {

// Throws kInvalidConfig if the runtime has not given ADD's result.
[[nodiscard]] const cni::Result& RequirePrevResult(const config::Config& config);

// What `record` holds. Throws kChanged if we do not know `id`, or know it in another namespace than
// `container`.
[[nodiscard]] state::Record RequireRecord(std::optional<state::Record> record,
                                          const AttachmentId& id,
                                          const netlink::Netns& container);

// Throws kChanged with all of `mismatches`, if there are any.
void ThrowIfChanged(const AttachmentId& id, const std::vector<std::string>& mismatches);

}  // namespace nomad_bridge::commands
