// Caches one answer for each key.
//
// Errors   what `ask` throws: then nothing is cached.
#pragma once

#include <map>
#include <type_traits>

namespace nomad_bridge {

// Returns `answers[key]`; the first time, calls `ask` for it.
template <typename Key, typename Answer, typename Ask>
[[nodiscard]] const Answer& AskOnce(std::map<Key, Answer>& answers,
                                    const std::type_identity_t<Key>& key,
                                    const Ask& ask) {
  const auto known = answers.find(key);
  return known != answers.end() ? known->second : answers.emplace(key, ask()).first->second;
}

}  // namespace nomad_bridge
