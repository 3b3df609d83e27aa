// Suggests what somebody may have meant who typed something unknown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nomad_bridge {

// Returns the member of `known` that takes the fewest characters to add, remove or change: at most
// half as many as were typed, and at most three. Empty if there is none.
[[nodiscard]] std::string_view FindNearest(std::string_view typed,
                                           const std::vector<std::string_view>& known);

// Returns "; did you mean 'job'?", or an empty string.
[[nodiscard]] std::string Suggestion(std::string_view typed,
                                     const std::vector<std::string_view>& known);

}  // namespace nomad_bridge
