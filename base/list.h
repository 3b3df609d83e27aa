// Appends one list to another, and looks up a value in a list.
//
// Ownership  The elements are moved; `more` is a copy unless the caller moves it in.
#pragma once

#include <algorithm>
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

}  // namespace nomad_bridge
