// Sweeps, and their points: the numbers, from 1, of the system calls at which a command is killed
// or held, or at which a call is refused.
//
// NOMAD_BRIDGE_SWEEP  FIRST/STEP: call FIRST, then every STEP-th call. "1/1" is every call; "1/7"
//                     is the default. ./test.sh prints its choice; with the same choice a failed
//                     sweep fails again at the same calls.
#pragma once

#include "tests/support/killing.h"

namespace nomad_bridge::test {

// for (int nth = FirstPoint(); ...; nth += PointStep())
[[nodiscard]] int FirstPoint();
[[nodiscard]] int PointStep();

// Runs a command again and again, killed at one point after the other, until it ends by itself.
// `begin` prepares a run and returns its command; `after` sees how it ended. Stops after a failure.
// NOLINTNEXTLINE(modernize-use-nodiscard): some callers have seen all of it in `after`
Killing KillAtEachPoint(const std::function<Command()>& begin,
                        const std::function<void(const Killing&)>& after);

}  // namespace nomad_bridge::test
