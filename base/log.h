// Lines for the runtime's log, on stderr: repairs, and errors that are ignored.
//
// Shapes     "nomad-bridge: ...\n"; never part of the protocol, which is on stdout
// Errors     none: a failed write is ignored.
// Not        std::cerr: constructing the streams costs every process 0.1 ms.
#pragma once

#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

namespace nomad_bridge {

// As Format() does.
template <typename... Parts>
void LogLine(Pattern<std::type_identity_t<Parts>...> pattern, const Parts&... parts) {
  WriteBestEffort(STDERR_FILENO, Cat("nomad-bridge: ", Format(pattern, parts...), '\n'));
}

}  // namespace nomad_bridge
