// Another program, run to its end and never for ever.
//
// Shapes   stdin holds `input`, byte for byte, and then ends. stdout and stderr are read while it
//          runs, both at once, so that neither side can block the other.
// Limits   after `timeout`, or with more than `max_out_bytes` on stdout, it is killed: an answer,
//          not an error. Of stderr the first MiB is kept.
// Child    The leader of a process group, all of which is killed when the leader has ended, however
//          it ended: what it left behind would hold resources that nobody knows of. It dies with
//          us, too. It gets no descriptor but stdin, stdout and stderr, and does not inherit that we
//          ignore SIGPIPE; folder and namespaces are ours.
// Errors   kIo if it cannot be started. A file that is being written to (ETXTBSY: the program is
//          just being installed) is tried again for a second.
// Assumes  one thread; stdin, stdout and stderr of our own are open (or their numbers taken).
// Source   fork(2), execve(2), pidfd_open(2) (Linux 5.3), close_range(2) (5.9), PR_SET_PDEATHSIG.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace nomad_bridge {

struct Subprocess {
  std::string path;                      // executed as it stands: nothing is searched for
  std::vector<std::string> arguments;    // without the program's own name
  std::vector<std::string> environment;  // "NAME=value", all of it: nothing is inherited
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
};

[[nodiscard]] ExitInfo RunSubprocess(const Subprocess& program);

}  // namespace nomad_bridge
