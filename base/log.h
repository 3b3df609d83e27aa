// Lines for the runtime's log, on stderr: repairs, and errors that are ignored.
//
// Shapes     "nomad-bridge: ...\n"; never part of the protocol, which is on stdout
// Errors     none: a failed write is ignored.
// Not        std::cerr: constructing the streams costs every process 0.1 ms.
#pragma once

#include <string_view>

#include <unistd.h>

#include "base/text.h"

namespace nomad_bridge {

// Writes `text` to a descriptor and ignores errors: a closed log is no reason to fail.
void WriteBestEffort(int fd, std::string_view text);

template <typename... Parts>
void LogLine(const Parts&... parts) {
  WriteBestEffort(STDERR_FILENO, Cat("nomad-bridge: ", parts..., '\n'));
}

}  // namespace nomad_bridge
