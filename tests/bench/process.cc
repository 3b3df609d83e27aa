#include "tests/bench/process.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <stdexcept>

#include <spawn.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"

namespace nomad_bridge::bench {
namespace {

std::runtime_error Failed(const std::string& what, int error) {
  return std::runtime_error(Cat("cannot ", what, ": ", ErrnoText(error)));
}

UniqueFd MemoryFile(const std::string& content) {
  UniqueFd fd(::memfd_create("nb_bench", MFD_CLOEXEC));
  if (!fd ||
      ::write(fd.get(), content.data(), content.size()) != static_cast<ssize_t>(content.size())) {
    throw Failed("make a file in memory", errno);
  }
  ::lseek(fd.get(), 0, SEEK_SET);
  return fd;
}

std::string Content(const UniqueFd& fd) {
  const off_t size = ::lseek(fd.get(), 0, SEEK_END);
  std::string content(static_cast<std::size_t>(std::max<off_t>(size, 0)), '\0');
  const ssize_t got = ::pread(fd.get(), content.data(), content.size(), 0);
  content.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return content;
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& string : strings) {
    // exec(3) takes them as char* and does not write to them.
    pointers.push_back(const_cast<char*>(string.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

// A command with everything that exec(3) needs in its place.
class Prepared {
 public:
  explicit Prepared(const Command& command)
      : program_(command.program),
        arguments_(command.arguments),
        environment_(command.environment),
        in_(MemoryFile(command.input)),
        out_(MemoryFile("")),
        err_(MemoryFile("")) {
    arguments_.insert(arguments_.begin(), program_);
  }

  [[nodiscard]] pid_t Spawn() const {
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in_.get(), STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, out_.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, err_.get(), STDERR_FILENO);
    pid_t pid = 0;
    const int error = ::posix_spawn(&pid,
                                    program_.c_str(),
                                    &actions,
                                    nullptr,
                                    Pointers(arguments_).data(),
                                    Pointers(environment_).data());
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
      throw Failed(Cat("run ", Quoted(program_)), error);
    }
    return pid;
  }

  // Stops itself at its exec(3), for us to go on with.
  [[nodiscard]] pid_t ForkTraced() const {
    const std::vector<char*> arguments = Pointers(arguments_);
    const std::vector<char*> environment = Pointers(environment_);
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      ::dup2(in_.get(), STDIN_FILENO);
      ::dup2(out_.get(), STDOUT_FILENO);
      ::dup2(err_.get(), STDERR_FILENO);
      ::execve(program_.c_str(), arguments.data(), environment.data());
      ::_exit(127);
    }
    return pid;
  }

  [[nodiscard]] Outcome Collect(int status) const {
    return {.status = status, .out = Content(out_), .err = Content(err_)};
  }

 private:
  std::string program_;
  std::vector<std::string> arguments_;
  std::vector<std::string> environment_;
  UniqueFd in_;
  UniqueFd out_;
  UniqueFd err_;
};

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

// What a stopped tracee gets on its way: its signal, unless the stop was ours.
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

Outcome Run(const Command& command) {
  const Prepared prepared(command);
  const pid_t pid = prepared.Spawn();
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return prepared.Collect(status);
}

Outcome RunTraced(const Command& command, Cost& cost) {
  constexpr long kOptions = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                            PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL;
  const Prepared prepared(command);
  const pid_t pid = prepared.ForkTraced();
  int status = 0;
  if (pid < 0 || ::waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) ||
      ::ptrace(PTRACE_SETOPTIONS, pid, nullptr, kOptions) != 0) {
    throw Failed(Cat("trace ", Quoted(command.program)), errno);
  }
  ++cost.processes;
  ::ptrace(PTRACE_CONT, pid, nullptr, nullptr);
  int exit_status = 0;
  // Until nothing of it is left: a helper may outlive its parent.
  for (pid_t stopped = 0; (stopped = ::waitpid(-1, &status, __WALL)) > 0;) {
    if (WIFSTOPPED(status)) {
      Count(stopped, status, cost);
      ::ptrace(PTRACE_CONT, stopped, nullptr, static_cast<long>(SignalToPass(status)));
    } else if (stopped == pid) {
      exit_status = status;
    }
  }
  return prepared.Collect(exit_status);
}

}  // namespace nomad_bridge::bench
