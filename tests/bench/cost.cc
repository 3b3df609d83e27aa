#include "tests/bench/cost.h"

#include <algorithm>
#include <fstream>
#include <string>

#include <sys/ptrace.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/text.h"

namespace nomad_bridge::bench {
namespace {

// The peak resident size of `pid`, a process and not a mere thread of one; 0 for a thread.
long PeakKib(pid_t pid) {
  std::ifstream status(Cat("/proc/", pid, "/status"));
  pid_t group = 0;
  long peak = 0;
  for (std::string key; status >> key;) {
    if (key == "Tgid:") {
      status >> group;
    } else if (key == "VmHWM:") {
      status >> peak;
    }
  }
  return group == pid ? peak : 0;
}

// What a stopped tracee is resumed with: its signal, unless the stop was ours.
int SignalToPass(int status) {
  const int signal = WSTOPSIG(status);
  const bool is_ours = signal == SIGTRAP || signal == SIGSTOP || (status >> 16) != 0;
  return is_ours ? 0 : signal;
}

void Count(pid_t pid, int status, Cost& cost) {
  const int event = status >> 16;
  // A vfork is what Go's os/exec does; a plain clone makes a thread.
  if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK) {
    ++cost.processes;
  } else if (event == PTRACE_EVENT_EXIT) {
    cost.peak_kib = std::max(cost.peak_kib, PeakKib(pid));
  }
}

}  // namespace

test::Outcome ExecuteTraced(test::Command command, Cost& cost) {
  constexpr long kOptions = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                            PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL;
  command.in_child = [] { ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr); };
  test::Process process = test::Process::Start(command);
  int status = 0;
  if (::waitpid(process.pid(), &status, 0) != process.pid() || !WIFSTOPPED(status) ||
      ::ptrace(PTRACE_SETOPTIONS, process.pid(), nullptr, kOptions) != 0) {
    throw ErrnoError(Code::kInternal, Cat("cannot trace ", command.argv.front()));
  }
  ++cost.processes;
  ::ptrace(PTRACE_CONT, process.pid(), nullptr, nullptr);
  int exit_status = 0;
  // Until nothing of it is left: a helper may outlive its parent.
  for (pid_t stopped = 0; (stopped = ::waitpid(-1, &status, __WALL)) > 0;) {
    if (WIFSTOPPED(status)) {
      Count(stopped, status, cost);
      ::ptrace(PTRACE_CONT, stopped, nullptr, static_cast<long>(SignalToPass(status)));
    } else if (stopped == process.pid()) {
      exit_status = status;
    }
  }
  return process.Collect(exit_status);
}

}  // namespace nomad_bridge::bench
