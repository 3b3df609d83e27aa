// What somebody who typed something unknown may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nomad_bridge {

// The one of `known` that takes the fewest characters to add, take away or change: half as many
// as were typed, and three, at most. Empty if there is none.
[[nodiscard]] std::string_view FindNearest(std::string_view typed,
                                           const std::vector<std::string_view>& known);

// "; did you mean 'job'?" of that; empty if there is none.
[[nodiscard]] std::string Suggestion(std::string_view typed,
                                     const std::vector<std::string_view>& known);

}  // namespace nomad_bridge
