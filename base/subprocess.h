// Running another program to its end, with limits on its time and its output.
//
// Shapes     stdin, stdout and stderr are memory files (memfd), so that neither side blocks on the
//            other. stdin holds `input`; stdout and stderr append. A script that *opens*
//            /dev/stderr with ">" instead of using >&2 truncates what was written there before.
// Limits     After `timeout`, or with more than `max_out_bytes` on stdout, the program is killed;
//            that is a result (End), not an error. The sizes are looked at every 10 ms, so memory
//            can exceed the limit by what is written in that time. Of stdout at most
//            `max_out_bytes` + 1 are returned, of stderr the first MiB.
// Child      Leads a process group of its own, which is killed as a whole when the leader has
//            ended, however it ended; dies with us (PR_SET_PDEATHSIG). It inherits no descriptor
//            but the three, and SIGPIPE at its default; working directory and namespaces are ours.
//            A process that left the group (a daemon) lives on; its writes to stdout and stderr
//            then fail with EPERM.
// Errors     kIo if the program cannot be started. ETXTBSY (it is just being installed) is retried
//            for a second. kKernel if there is no process, memory or descriptor to run it with.
// Assumes    one thread; our own stdin, stdout and stderr are open (or their numbers taken).
// Source     fork(2), execve(2), memfd_create(2), F_ADD_SEALS in fcntl(2), pidfd_open(2) (Linux
//            5.3), close_range(2) (5.9), PR_SET_PDEATHSIG in prctl(2).
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace nomad_bridge {

struct Subprocess {
  std::string path;                      // executed as it is, without a search in PATH
  std::vector<std::string> arguments;    // without argv[0]
  std::vector<std::string> environment;  // "NAME=value"; nothing is inherited
  std::string input;
  std::chrono::milliseconds timeout;
  std::size_t max_out_bytes = 16 << 20;
};

enum class End { kExit, kSignal, kOverdue, kTooMuch };

struct ExitInfo {
  End how = End::kExit;
  int number = 0;  // of kExit the code, of kSignal the signal
  std::string out;
  std::string err;

  [[nodiscard]] bool Succeeded() const { return how == End::kExit && number == 0; }
  // "exit code 1", "killed by signal 11 (Segmentation fault)", ...
  [[nodiscard]] std::string HowItEnded() const;
};

[[nodiscard]] ExitInfo RunSubprocess(const Subprocess& program);

}  // namespace nomad_bridge
