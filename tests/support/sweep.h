// The points of a sweep: at which of its system calls, from 1, a command is killed, held or refused
// one.
//
// NOMAD_BRIDGE_SWEEP  FIRST/STEP: call FIRST, then every STEP-th. "1/1" is every call, "1/7" what
//                     is done if the variable is not set. ./test.sh prints its choice; with that, a
//                     sweep that failed fails again at the same calls.
#pragma once

namespace nomad_bridge::test {

// for (int nth = FirstPoint(); ...; nth += PointStep())
[[nodiscard]] int FirstPoint();
[[nodiscard]] int PointStep();

}  // namespace nomad_bridge::test
