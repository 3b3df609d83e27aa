// Suggests a known word for an unknown word that somebody typed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nomad_bridge {

// Returns the member of `known` that is nearest to `typed`, by the number of characters to add,
// remove or change. Returns "" if that number is more than three, or more than half of the
// characters typed; one change is always allowed.
[[nodiscard]] std::string_view FindNearest(std::string_view typed,
                                           const std::vector<std::string_view>& known);

// Returns "; did you mean 'job'?", or an empty string.
[[nodiscard]] std::string Suggestion(std::string_view typed,
                                     const std::vector<std::string_view>& known);

}  // namespace nomad_bridge
