// Lines for the runtime's log, on stderr: repairs, and errors that are ignored.
//
// Shapes     "nomad-bridge: ...\n"; never part of the protocol, which is on stdout
// Locks      Nothing is written while this process holds a lock (base/file_lock.h), because a write
//            may block (`2>&1 | less`). Lines are kept until the last lock is released.
// Errors     none: a failed write is ignored. A process that is killed loses what it has kept.
// Not        std::cerr: constructing the streams costs every process 0.1 ms.
#pragma once

#include <string_view>

#include "base/text.h"

namespace nomad_bridge {

// Writes `text` as it is.
void WriteLog(std::string_view text);

// Writes the kept lines if this process holds no lock. Called when a lock is released.
void WriteKeptLog();

// Writes a line, formatted as by Format().
template <typename... Parts>
void LogLine(Pattern<std::type_identity_t<Parts>...> pattern, const Parts&... parts) {
  WriteLog(Cat("nomad-bridge: ", Format(pattern, parts...), '\n'));
}

}  // namespace nomad_bridge
