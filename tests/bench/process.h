// Running a plugin: once to see how long it takes, once to see what it costs.
//
// Shapes  stdin, stdout and stderr are files in memory: nothing has to be pumped while the clock
//         runs.
#pragma once

#include <string>
#include <vector>

namespace nomad_bridge::bench {

struct Command {
  std::string program;  // a path
  std::vector<std::string> arguments;
  std::string input;
  std::vector<std::string> environment;  // all of it, "KEY=value"
};

struct Outcome {
  int status = 0;  // as wait(2) has it
  std::string out;
  std::string err;
};

// As a runtime runs it: spawned (vfork and exec), waited for.
[[nodiscard]] Outcome Run(const Command& command);

// What one run costs, its children included.
struct Cost {
  int processes = 0;  // started, with the program itself
  long peak_kib = 0;  // the largest resident size that any one of them had
};

// Runs it under ptrace(2), far slower than Run(). Not wait4(2)'s ru_maxrss: that one never shows
// less than the memory of whoever spawned the process.
[[nodiscard]] Outcome RunTraced(const Command& command, Cost& cost);

}  // namespace nomad_bridge::bench
