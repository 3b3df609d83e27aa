// Appends one list to another, looks up a value in a list, or an enumerator by its name.
//
// Ownership  The elements are moved; `more` is a copy unless the caller moves it in.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace nomad_bridge {

template <typename T>
void Append(std::vector<T>& list, std::vector<T> more) {
  list.insert(
      list.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

template <typename List, typename T>
[[nodiscard]] bool Contains(const List& list, const T& value) {
  return std::ranges::find(list, value) != list.end();
}

// Finds an enumerator by its name. `names` has the names of the enumerators, which count from 0.
template <typename Enum, std::size_t kCount>
[[nodiscard]] std::optional<Enum> FindNamed(const std::array<std::string_view, kCount>& names,
                                            std::string_view name) {
  const auto* const found = std::ranges::find(names, name);
  return found != names.end() ? std::optional(static_cast<Enum>(found - names.begin()))
                              : std::nullopt;
}

}  // namespace nomad_bridge
