// Names of an enumeration's values, in one table that is read both ways.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace nomad_bridge {

template <typename Enum, std::size_t kCount>
using Names = std::array<std::pair<Enum, std::string_view>, kCount>;

// Returns the name of `value`; empty if it has none.
template <typename Enum, std::size_t kCount>
[[nodiscard]] constexpr std::string_view NameOf(const Names<Enum, kCount>& names, Enum value) {
  for (const auto& [each, name] : names) {
    if (each == value) {
      return name;
    }
  }
  return {};
}

template <typename Enum, std::size_t kCount>
[[nodiscard]] constexpr std::optional<Enum> FindNamed(const Names<Enum, kCount>& names,
                                                      std::string_view name) {
  for (const auto& [value, each] : names) {
    if (each == name) {
      return value;
    }
  }
  return std::nullopt;
}

}  // namespace nomad_bridge
