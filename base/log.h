// Lines for the runtime's log, on stderr: what was mended, what is ignored. Never part of the
// protocol.
//
// Streams  std::cout and its kind are not used, here or for results: making them costs every process
//          some 0.1 ms, and they keep errno to themselves.
#pragma once

#include <string_view>

#include <unistd.h>

#include "base/text.h"

namespace nomad_bridge {

// Writes `text` into the file descriptor `to`. Whoever does not read it is no reason to fail.
void WriteBestEffort(int to, std::string_view text);

template <typename... Parts>
void LogLine(const Parts&... parts) {
  WriteBestEffort(STDERR_FILENO, Cat("nomad-bridge: ", parts..., '\n'));
}

}  // namespace nomad_bridge
