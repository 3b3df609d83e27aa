#include "tests/support/killing.h"

#include <csignal>

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

namespace nomad_bridge::test {
namespace {

// clang-format off
constexpr std::uint64_t kUnseen[] = {
    // memory
    SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_brk,
    // files, read only
    SYS_read, SYS_readv, SYS_pread64, SYS_lseek, SYS_readlinkat, SYS_faccessat, SYS_newfstatat,
    SYS_statx, SYS_statfs, SYS_fstat, SYS_fstatfs, SYS_getdents64,
    // sockets, and the answers on them
    SYS_socket, SYS_bind, SYS_getsockname, SYS_getsockopt, SYS_setsockopt, SYS_recvmsg,
    SYS_recvfrom, SYS_poll, SYS_ppoll,
    // its own descriptors, locks and namespace
    SYS_close, SYS_dup3, SYS_fcntl, SYS_flock, SYS_setns,
    // itself
    SYS_getpid, SYS_gettid, SYS_getuid, SYS_geteuid, SYS_set_tid_address, SYS_set_robust_list,
    SYS_rseq, SYS_futex, SYS_prlimit64, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_sigaltstack,
    SYS_setitimer,
    // the machine
    SYS_uname, SYS_clock_gettime, SYS_getrandom,
};
// clang-format on

// ERESTARTNOINTR of the kernel's include/linux/errno.h, which only tracers see: the call begins
// again by itself. A write of disable_ipv6 does so, hundreds of times, while any process of the
// machine holds the kernel's RTNL lock.
constexpr std::int64_t kRestartNoInterrupt = 513;

// Returns whether the call that is about to begin can change anything that others see.
bool IsSeen(const __ptrace_syscall_info& call) {
  const std::uint64_t number = call.entry.nr;
  if (number == SYS_openat) {
    constexpr std::uint64_t kWrites =
        O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY);
    return (call.entry.args[2] & kWrites) != 0;
  }
  return std::ranges::find(kUnseen, number) == std::end(kUnseen);
}

// Lets the stopped child go on to its next stop at a system call's entry or exit, passing signals
// on to it. Returns false when it has ended, with `status` as waitpid(2) returns it.
bool GoOn(pid_t child, int& status) {
  for (int signal = 0;; signal = WSTOPSIG(status)) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, signal);
    if (::waitpid(child, &status, 0) != child) {
      throw ErrnoError(Code::kInternal, "cannot wait for the traced program");
    }
    if (!WIFSTOPPED(status)) {
      return false;
    }
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
      return true;
    }
  }
}

using AtCall = std::function<void(pid_t traced, int nth)>;

// Starts `command` under ptrace(2); its exec stops it.
Process StartTraced(Command command, long options) {
  command.in_child = [prepare = command.in_child] {
    if (prepare) {
      prepare();
    }
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  };
  // The leak checker is a tracer itself and would fail under another.
  command.variables["ASAN_OPTIONS"] = "detect_leaks=0";
  Process process = Process::Start(command);
  int status = 0;
  ::waitpid(process.pid(), &status, 0);
  ::ptrace(PTRACE_SETOPTIONS,
           process.pid(),
           nullptr,
           PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | options);
  return process;
}

// Lets `traced`, which is stopped, run to its end. Calls `at` before each of its calls that others
// can see, with the number of that call. Sets `status` as waitpid(2) does. Returns how many such
// calls there were.
int Follow(pid_t traced, int& status, const AtCall& at) {
  int calls = 0;
  bool begins_again = false;
  while (GoOn(traced, status)) {
    __ptrace_syscall_info call{};
    ::ptrace(PTRACE_GET_SYSCALL_INFO, traced, sizeof call, &call);
    if (call.op == PTRACE_SYSCALL_INFO_EXIT) {
      begins_again = call.exit.rval == -kRestartNoInterrupt;
    } else if (call.op == PTRACE_SYSCALL_INFO_ENTRY && !begins_again && IsSeen(call)) {
      at(traced, ++calls);
    }
  }
  return calls;
}

Killing Trace(Command command, const AtCall& at) {
  Process process = StartTraced(std::move(command), 0);
  Killing killing;
  int status = 0;
  killing.calls = Follow(process.pid(), status, at);
  killing.outcome = process.Collect(status);
  return killing;
}

// Returns the pid of the program's child, which is stopped and traced like its parent; 0 if the
// program ends without a child, with `status`.
pid_t AwaitChild(pid_t program, int& status) {
  for (int signal = 0;; signal = WSTOPSIG(status)) {
    ::ptrace(PTRACE_CONT, program, nullptr, signal);
    ::waitpid(program, &status, 0);
    if (!WIFSTOPPED(status)) {
      return 0;
    }
    if (status >> 16 == PTRACE_EVENT_FORK) {
      unsigned long child = 0;
      ::ptrace(PTRACE_GETEVENTMSG, program, nullptr, &child);
      return static_cast<pid_t>(child);
    }
  }
}

Killing TraceChild(Command command, const AtCall& at) {
  Process process = StartTraced(std::move(command), PTRACE_O_TRACEFORK);
  Killing killing;
  int status = 0;
  const pid_t child = AwaitChild(process.pid(), status);
  if (child == 0) {
    killing.outcome = process.Collect(status);
    return killing;
  }
  int child_status = 0;
  ::waitpid(child, &child_status, __WALL);  // stopped before its first call
  ::ptrace(PTRACE_DETACH, process.pid(), nullptr, 0);
  killing.calls = Follow(child, child_status, at);
  killing.outcome = process.Wait();
  return killing;
}

// Kills at the N-th call.
class Killer {
 public:
  explicit Killer(int nth) : nth_(nth) {}

  void operator()(pid_t traced, int nth) {
    if (nth == nth_) {
      ::kill(traced, SIGKILL);
      killed_ = true;
    }
  }
  [[nodiscard]] bool killed() const { return killed_; }

 private:
  int nth_;
  bool killed_ = false;
};

}  // namespace

Killing RunKilledAt(Command command, int nth) {
  Killer killer(nth);
  Killing killing = Trace(std::move(command), std::ref(killer));
  killing.killed = killer.killed();
  return killing;
}

Killing RunDisturbedAt(Command command, int nth, const std::function<void()>& act) {
  return Trace(std::move(command), [&](pid_t, int call) {
    if (call == nth) {
      act();
    }
  });
}

Killing RunObserved(Command command, const std::function<void()>& look) {
  return Trace(std::move(command), [&](pid_t, int) { look(); });
}

Killing RunChildKilledAt(Command command, int nth) {
  Killer killer(nth);
  Killing killing = TraceChild(std::move(command), std::ref(killer));
  killing.killed = killer.killed();
  return killing;
}

Killing RunChildObserved(Command command, const std::function<void(pid_t child, int nth)>& look) {
  return TraceChild(std::move(command), look);
}

}  // namespace nomad_bridge::test
