// Appending one list to another.
//
// Ownership  The elements are moved; `more` is a copy unless the caller moves it in.
#pragma once

#include <iterator>
#include <utility>
#include <vector>

namespace nomad_bridge {

template <typename T>
void Append(std::vector<T>& list, std::vector<T> more) {
  list.insert(
      list.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace nomad_bridge
