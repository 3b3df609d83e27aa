#include "tests/support/refusal.h"

#include <csignal>

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace nomad_bridge::test {
namespace {

// The child's descriptor of the seccomp listener, which reports its calls, until its exec.
constexpr int kListener = 900;

// Runs in the child: from then on, its calls of that number, and its children's calls, wait for our
// answer.
void HoldCalls(std::uint32_t call) {
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{.len = std::size(steps), .filter = steps};
  const auto listener = static_cast<int>(
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter));
  if (listener < 0 || ::dup3(listener, kListener, O_CLOEXEC) < 0) {
    ::_exit(126);
  }
  ::raise(SIGSTOP);  // until the parent has the listener, too
}

// Answers the calls of one program.
class Refuser {
 public:
  Refuser(Process process, int nth, int error)
      : process_(std::move(process)),
        handle_(static_cast<int>(::syscall(SYS_pidfd_open, process_.pid(), 0))),
        nth_(nth),
        error_(error) {
    int status = 0;
    ::waitpid(process_.pid(), &status, WUNTRACED);
    listener_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_getfd, handle_.get(), kListener, 0)));
    if (!WIFSTOPPED(status) || !listener_) {
      throw ErrnoError(Code::kInternal, "cannot hold the calls of a program");
    }
    ::kill(process_.pid(), SIGCONT);
  }

  // Answers calls until the program and its children have ended. Lets the children's calls pass.
  Refusal Run() {
    pollfd ready[] = {{.fd = listener_.get(), .events = POLLIN, .revents = 0},
                      {.fd = handle_.get(), .events = POLLIN, .revents = 0}};
    const auto patience = std::chrono::milliseconds(kProgramPatience).count();
    while (ready[0].fd >= 0 || ready[1].fd >= 0) {
      if (::poll(std::data(ready), std::size(ready), static_cast<int>(patience)) <= 0) {
        throw std::runtime_error("a program whose calls are held, or a child of it, does not end");
      }
      if ((ready[0].revents & POLLIN) != 0) {
        Answer();
      } else if (ready[0].revents != 0) {
        ready[0].fd = -1;  // nobody is left whose calls are held
      } else {
        refusal_.outcome = process_.Wait();
        ready[1].fd = -1;
      }
    }
    return std::move(refusal_);
  }

 private:
  void Answer() {
    seccomp_notif call{};
    if (::ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) {
      return;  // it was killed
    }
    seccomp_notif_resp answer{
        .id = call.id, .val = 0, .error = 0, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    if (static_cast<pid_t>(call.pid) == process_.pid() && ++calls_ == nth_) {
      answer.flags = 0;
      answer.error = -error_;
      refusal_.happened = true;
    }
    ::ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_SEND, &answer);
  }

  Process process_;
  UniqueFd handle_;
  UniqueFd listener_;
  int nth_;
  int error_;
  int calls_ = 0;
  Refusal refusal_;
};

// Runs in the child, and lasts for its lifetime.
void ForbidNetfilterSockets() {
  const auto argument = [](std::size_t nth) {
    return static_cast<std::uint32_t>(offsetof(seccomp_data, args) + nth * sizeof(std::uint64_t));
  };
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(0)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(2)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NETLINK_NETFILTER, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPROTONOSUPPORT),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{.len = std::size(steps), .filter = steps};
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0) {
    ::_exit(126);
  }
}

}  // namespace

Command WithoutNfTables(Command command) {
  command.in_child = &ForbidNetfilterSockets;
  return command;
}

Command WithoutNetAdmin(Command command) {
  command.in_child = [] { static_cast<void>(::prctl(PR_CAPBSET_DROP, CAP_NET_ADMIN, 0, 0, 0)); };
  return command;
}

Command UnderStrace(Command command,
                    const std::string& log,
                    const std::vector<std::string>& options) {
  std::vector<std::string> argv = {"strace", "-o", log};
  argv.insert(argv.end(), options.begin(), options.end());
  command.argv.insert(command.argv.begin(), argv.begin(), argv.end());
  // The leak checker is a tracer itself and would fail under another.
  command.variables["ASAN_OPTIONS"] = "detect_leaks=0";
  return command;
}

Refusal RunFailingAt(Command command, int nth, int call, int error) {
  command.in_child = [prepare = command.in_child, call] {
    if (prepare) {
      prepare();
    }
    HoldCalls(static_cast<std::uint32_t>(call));
  };
  // The leak checker makes calls of its own.
  command.variables["ASAN_OPTIONS"] = "detect_leaks=0";
  Refusal refusal = Refuser(Process::Start(command), nth, error).Run();
  // If the refused call was libasan 14's own look for its options, the leak checker runs after all,
  // and fails. The command itself had ended by then.
  if (refusal.outcome.err.find("LeakSanitizer has encountered a fatal error") !=
      std::string::npos) {
    refusal.outcome.exit_code = refusal.outcome.json.contains("code") ? 1 : 0;
  }
  return refusal;
}

Refusal RunRefusedAt(Command command, int nth) {
  return RunFailingAt(std::move(command), nth, SYS_sendto, EPERM);
}

Refusal RunUnansweredAt(Command command, int nth, int error) {
  return RunFailingAt(std::move(command), nth, SYS_recvmsg, error);
}

}  // namespace nomad_bridge::test
