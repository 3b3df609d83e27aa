// What running a program costs beside time.
#pragma once

#include "tests/support/process.h"

namespace nomad_bridge::bench {

struct Cost {
  int processes = 0;  // started, with the program itself
  long peak_kib = 0;  // the largest resident size that any one of them had
};

// Runs it under ptrace(2), far slower than Execute(), and adds what it costs to `cost`. Not
// wait4(2)'s ru_maxrss: that one never shows less than the memory of whatever process spawned the
// program.
[[nodiscard]] test::Outcome ExecuteTraced(test::Command command, Cost& cost);

}  // namespace nomad_bridge::bench
