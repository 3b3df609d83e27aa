// The points of a sweep: the numbers, from 1, of the system calls at which a command is killed or
// held, or at which a call is refused.
//
// NOMAD_BRIDGE_SWEEP  FIRST/STEP: call FIRST, then every STEP-th call. "1/1" is every call; "1/7"
//                     is the default. ./test.sh prints its choice; with the same choice a failed
//                     sweep fails again at the same calls.
#pragma once

namespace nomad_bridge::test {

// for (int nth = FirstPoint(); ...; nth += PointStep())
[[nodiscard]] int FirstPoint();
[[nodiscard]] int PointStep();

}  // namespace nomad_bridge::test
