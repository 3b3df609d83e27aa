// What every CHECK needs: something to compare with, and a way to say what is different.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plugin/config.h"
#include "plugin/record.h"

namespace nomad_bridge {

// Throws kInvalidConfig if the runtime has not given ADD's result.
[[nodiscard]] const Result& RequirePrevResult(const Config& config);

// What `record` holds. Throws kChanged if we do not know `who`, or know it in another namespace than
// `guest`.
[[nodiscard]] Record RequireRecord(std::optional<Record> record,
                                   const Attachment& who,
                                   const Netns& guest);

// Throws kChanged with all of `faults`, if there are any.
void ThrowIfChanged(const Attachment& who, const std::vector<std::string>& faults);

}  // namespace nomad_bridge
