#include "base/nearest.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/text.h"

namespace nomad_bridge {
namespace {

// Returns the Levenshtein distance: how many characters to add, remove or change.
std::size_t Distance(std::string_view one, std::string_view other) {
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), 0U);
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < other.size(); ++j) {
      const std::size_t changed = diagonal + (one[i] == other[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view FindNearest(std::string_view typed, const std::vector<std::string_view>& known) {
  const std::size_t most = std::min(std::size_t{3}, std::max(typed.size() / 2, std::size_t{1}));
  const auto distance = [&](std::string_view name) { return Distance(typed, name); };
  const auto nearest = std::ranges::min_element(known, {}, distance);
  return nearest != known.end() && distance(*nearest) <= most ? *nearest : "";
}

std::string Suggestion(std::string_view typed, const std::vector<std::string_view>& known) {
  const std::string_view nearest = FindNearest(typed, known);
  return nearest.empty() ? "" : Format("; did you mean '{}'?", nearest);
}

}  // namespace nomad_bridge
