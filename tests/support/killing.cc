#include "tests/support/killing.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <functional>
#include <utility>

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/error.h"

namespace nomad_bridge::test {
namespace {

constexpr std::array<std::uint64_t, 48> kUnseen = {SYS_mmap,
                                                   SYS_munmap,
                                                   SYS_mprotect,
                                                   SYS_mremap,
                                                   SYS_madvise,
                                                   SYS_brk,
                                                   SYS_read,
                                                   SYS_readv,
                                                   SYS_pread64,
                                                   SYS_readlinkat,
                                                   SYS_close,
                                                   SYS_fstat,
                                                   SYS_newfstatat,
                                                   SYS_statx,
                                                   SYS_statfs,
                                                   SYS_fstatfs,
                                                   SYS_lseek,
                                                   SYS_faccessat,
                                                   SYS_getdents64,
                                                   SYS_getrandom,
                                                   SYS_futex,
                                                   SYS_prlimit64,
                                                   SYS_rseq,
                                                   SYS_uname,
                                                   SYS_set_tid_address,
                                                   SYS_set_robust_list,
                                                   SYS_rt_sigaction,
                                                   SYS_rt_sigprocmask,
                                                   SYS_sigaltstack,
                                                   SYS_clock_gettime,
                                                   SYS_getpid,
                                                   SYS_gettid,
                                                   SYS_getuid,
                                                   SYS_geteuid,
                                                   SYS_getsockname,
                                                   SYS_getsockopt,
                                                   SYS_setsockopt,
                                                   SYS_recvmsg,
                                                   SYS_recvfrom,
                                                   SYS_poll,
                                                   SYS_ppoll,
                                                   SYS_socket,
                                                   SYS_bind,
                                                   SYS_setns,
                                                   SYS_fcntl,
                                                   SYS_flock,
                                                   SYS_setitimer,
                                                   SYS_dup3};

// Whether the call that is about to begin can change anything that others see.
bool IsSeen(const __ptrace_syscall_info& call) {
  const std::uint64_t number = call.entry.nr;
  if (number == SYS_openat) {
    constexpr std::uint64_t kWrites =
        O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY);
    return (call.entry.args[2] & kWrites) != 0;
  }
  return std::find(kUnseen.begin(), kUnseen.end(), number) == kUnseen.end();
}

// Lets the stopped child go on to its next stop at a system call's entry or exit, passing signals
// on to it. False when it has ended, with `status` as waitpid(2) returns it.
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

// Calls `at` when the program is about to make its N-th call.
Killing Trace(Command command, int nth, const std::function<void(pid_t child)>& at) {
  command.in_child = [] { ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr); };
  // The leak checker is a tracer itself and would fail under another.
  command.variables["ASAN_OPTIONS"] = "detect_leaks=0";
  Process process = Process::Start(command);
  const pid_t child = process.pid();
  Killing killing;
  int status = 0;
  ::waitpid(child, &status, 0);  // stopped by its exec
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  while (GoOn(child, status)) {
    __ptrace_syscall_info call{};
    ::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof call, &call);
    if (call.op == PTRACE_SYSCALL_INFO_ENTRY && IsSeen(call) && ++killing.calls == nth) {
      at(child);
    }
  }
  killing.outcome = process.Collect(status);
  return killing;
}

}  // namespace

Killing RunKilledAt(Command command, int nth) {
  bool killed = false;
  Killing killing = Trace(std::move(command), nth, [&](pid_t child) {
    ::kill(child, SIGKILL);
    killed = true;
  });
  killing.killed = killed;
  return killing;
}

Killing RunDisturbedAt(Command command, int nth, const std::function<void()>& act) {
  return Trace(std::move(command), nth, [&](pid_t) { act(); });
}

}  // namespace nomad_bridge::test
