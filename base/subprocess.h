// Runs another program to its end, with a time limit.
//
// Limits     The program is killed after `timeout`, or when it has printed more than 16 MiB. Both
//            are results (End), not errors.
// Child      It leads a process group of its own. The whole group is killed when the leader has
//            ended. A daemon that left the group lives on, even if it keeps stdout open.
//            It inherits no descriptor but the three pipes, and SIGPIPE at its default. Its
//            working directory and namespaces are ours.
// Errors     kIo if the program cannot be started; kKernel if there is no pipe or process for it.
// Assumes    one thread; our stdin, stdout and stderr are open; we ignore SIGPIPE, but not SIGCHLD
// Source     posix_spawn(3), pidfd_open(2) (Linux 5.3)
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace nomad_bridge {

struct Subprocess {
  std::string path;                      // executed as it is, without a search in PATH
  std::vector<std::string> arguments;    // without argv[0]
  std::vector<std::string> environment;  // "NAME=value"; nothing is inherited
  std::string input;
  std::chrono::milliseconds timeout;
};

enum class End { kExit, kSignal, kOverdue, kTooMuch };

struct ExitInfo {
  End how = End::kExit;
  int number = 0;  // kExit: the exit code; kSignal: the signal
  std::string out;
  std::string err;

  [[nodiscard]] bool Succeeded() const { return how == End::kExit && number == 0; }
  // "exit code 1", "killed by signal 11 (Segmentation fault)", ...
  [[nodiscard]] std::string HowItEnded() const;
};

[[nodiscard]] ExitInfo RunSubprocess(const Subprocess& program);

}  // namespace nomad_bridge
