// Rules that are removed by what was read of them, while other programs remove rules, too.
#pragma once

#include <functional>
#include <utility>

#include "base/error.h"

namespace nomad_bridge::takeover {

// Removes what `find` finds. All of it is refused if somebody else has removed some since it was
// read: then `read_again` makes `find` look anew, for as long as it finds something else.
template <typename Found>
void RemoveFound(const std::function<Found()>& find,
                 const std::function<void(const Found&)>& remove,
                 const std::function<void()>& read_again) {
  Found found = find();
  while (!found.empty()) {
    try {
      return remove(found);
    } catch (const Error&) {
      read_again();
      Found left = find();
      if (left == found) {
        throw;
      }
      found = std::move(left);
    }
  }
}

}  // namespace nomad_bridge::takeover
