// kill -9 between any two system calls: runs a program and kills it just before the N-th call that
// could change something.
//
// Counted  The program's own system calls that have an effect outside of it: not memory, not
//          reading, not its own descriptors. Between two counted calls the world does not change,
//          so N = 1, 2, 3 ... reaches every state in which the program can leave the world.
// How      ptrace(2) kills the program at the entry of the call, so the call does not happen.
#pragma once

#include "tests/support/process.h"

namespace nomad_bridge::test {

// NOLINTNEXTLINE(bugprone-exception-escape): nlohmann's move, whose assertions confuse the check
struct Killing {
  Outcome outcome;
  int calls = 0;        // counted until the end
  bool killed = false;  // false: it ended before its N-th call (or nobody killed it)
};

// `nth` starts at 1; 0 only counts.
[[nodiscard]] Killing RunKilledAt(Command command, int nth);

// For races: holds the program just before its N-th call while `act` changes something, and then
// lets it go on.
[[nodiscard]] Killing RunDisturbedAt(Command command, int nth, const std::function<void()>& act);

// Calls `look` before every such call, while the program is held.
[[nodiscard]] Killing RunObserved(Command command, const std::function<void()>& look);

// Like RunKilledAt(), for the child process that the program starts: nth = 0 only counts. The
// program itself goes on untouched. If there is no child, counts nothing.
[[nodiscard]] Killing RunChildKilledAt(Command command, int nth);
// `look` gets the child's pid, and the number of the call that it is about to make.
[[nodiscard]] Killing RunChildObserved(Command command,
                                       const std::function<void(pid_t child, int nth)>& look);

}  // namespace nomad_bridge::test
