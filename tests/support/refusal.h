// Runs commands for which the kernel refuses one netlink request or another system call, or does
// not confirm it. A command must then undo what it has half done.
#pragma once

#include <sys/syscall.h>

#include "tests/support/process.h"

namespace nomad_bridge::test {

// Returns `command` under strace(1), which writes its system calls to `log`, or changes them.
[[nodiscard]] Command UnderStrace(Command command,
                                  const std::string& log,
                                  const std::vector<std::string>& options);

// NOLINTNEXTLINE(bugprone-exception-escape): nlohmann's move, whose assertions confuse the check
struct Refusal {
  Outcome outcome;
  bool happened = false;  // false: the command made fewer requests, or got fewer answers

  // Whether the command itself failed: it was not the dynamic loader that lacked a library, nor
  // was the call a sanitizer's own.
  [[nodiscard]] bool IsFailure() const {
    constexpr int kNotStarted = 127;
    return outcome.exit_code != 0 && outcome.exit_code != kNotStarted &&
           outcome.err.find("CHECK failed: san") == std::string::npos;
  }
};

// The N-th netlink request of `command`, from 1, never reaches the kernel: its sendto(2) fails with
// EPERM.
[[nodiscard]] Refusal RunRefusedAt(Command command, int nth);

// The kernel does what it was asked, but the N-th answer is lost: its recvmsg(2) fails with
// `error`, ENOMEM, or EAGAIN as when the wait for it has ended.
[[nodiscard]] Refusal RunUnansweredAt(Command command, int nth, int error);

// Returns `command` as it would run on a kernel without nfnetlink, or under a seccomp filter: it
// cannot create a socket of NETLINK_NETFILTER (EPROTONOSUPPORT).
[[nodiscard]] Command WithoutNfTables(Command command);

// Returns `command` as it would run for a root user whose bounding set lacks CAP_NET_ADMIN.
[[nodiscard]] Command WithoutNetAdmin(Command command);

// The system calls by which the C library implements rename(3) and unlink(2): arm64 has only the
// variants with a directory.
#ifdef SYS_rename
constexpr int kRenameCall = SYS_rename;
#else
constexpr int kRenameCall = SYS_renameat;
#endif
#ifdef SYS_unlink
constexpr int kUnlinkCall = SYS_unlink;
#else
constexpr int kUnlinkCall = SYS_unlinkat;
#endif

// Makes the N-th system call `call` (SYS_...) of `command` fail with `error`. Calls of programs
// that it starts do not count; these have ended, too, when this returns. Nothing is traced, so only
// calls of that number become slower.
[[nodiscard]] Refusal RunFailingAt(Command command, int nth, int call, int error);

}  // namespace nomad_bridge::test
