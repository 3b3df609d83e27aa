#include "base/subprocess.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/file_lock.h"
#include "base/text.h"

namespace nomad_bridge {
namespace {

constexpr std::size_t kMaxBytes = 16 << 20;

struct Pipe {
  UniqueFd reader;
  UniqueFd writer;
};

Pipe OpenPipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw ErrnoError(Code::kKernel, "cannot create a pipe");
  }
  return {.reader = UniqueFd(ends[0]), .writer = UniqueFd(ends[1])};
}

struct Pipes {
  Pipe in = OpenPipe();
  Pipe out = OpenPipe();
  Pipe err = OpenPipe();
};

// Returns the array that execve(2) takes. It points into `words`.
std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

pid_t Spawn(const Subprocess& program, const Pipes& pipes) {
  std::vector<std::string> words = program.arguments;
  words.insert(words.begin(), program.path);
  std::vector<std::string> variables = program.environment;

  posix_spawn_file_actions_t files{};
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, pipes.in.reader.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, pipes.out.writer.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, pipes.err.writer.get(), STDERR_FILENO);
  // Also closes descriptors that the runtime left open in us without O_CLOEXEC.
  ::posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);

  posix_spawnattr_t attributes{};
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  sigset_t ignored{};
  ::sigaddset(&ignored, SIGPIPE);
  ::sigaddset(&ignored, SIGXFSZ);
  ::posix_spawnattr_setsigdefault(&attributes, &ignored);

  pid_t child = -1;
  const int error = ::posix_spawn(&child,
                                  program.path.c_str(),
                                  &files,
                                  &attributes,
                                  Pointers(words).data(),
                                  Pointers(variables).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  if (error != 0) {
    const bool is_ours = error == EAGAIN || error == ENOMEM;
    throw Error(is_ours ? Code::kKernel : Code::kIo,
                Format("cannot start '{}'", program.path),
                ErrnoText(error));
  }
  return child;
}

// Appends what has arrived; closes `from` at its end. Blocks unless poll(2) has reported `from`.
void Read(UniqueFd& from, std::string& text) {
  std::array<char, 64 << 10> buffer{};
  const ssize_t got = ::read(from.get(), buffer.data(), buffer.size());
  if (got > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  } else {
    from = UniqueFd();
  }
}

// Writes a part of `rest`, which poll(2) promises not to block. Closes `to` at the end of `rest`,
// or if nobody reads.
void Write(UniqueFd& to, std::string_view& rest) {
  const ssize_t written =
      ::write(to.get(), rest.data(), std::min<std::size_t>(rest.size(), PIPE_BUF));
  rest.remove_prefix(written > 0 ? static_cast<std::size_t>(written) : rest.size());
  if (rest.empty()) {
    to = UniqueFd();
  }
}

// Writes the input and reads the output until the program has ended by itself and all its output is
// read.
End Communicate(const Subprocess& program, const UniqueFd& child, Pipes& pipes, ExitInfo& exit) {
  const Deadline deadline = FromNow(program.timeout);
  std::string_view input = program.input;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    std::array<pollfd, 4> waiting = {pollfd{.fd = child.get(), .events = POLLIN},
                                     pollfd{.fd = pipes.in.writer.get(), .events = POLLOUT},
                                     pollfd{.fd = pipes.out.reader.get(), .events = POLLIN},
                                     pollfd{.fd = pipes.err.reader.get(), .events = POLLIN}};
    if (left.count() <= 0 ||
        ::poll(waiting.data(), waiting.size(), static_cast<int>(left.count())) <= 0) {
      return End::kOverdue;
    }
    const auto& [ended, in, out, err] = waiting;
    if (in.revents != 0) {
      Write(pipes.in.writer, input);
    }
    if (out.revents != 0) {
      Read(pipes.out.reader, exit.out);
    }
    if (err.revents != 0) {
      Read(pipes.err.reader, exit.err);
    }
    if (exit.out.size() + exit.err.size() > kMaxBytes) {
      return End::kTooMuch;
    }
    if (ended.revents != 0 && out.revents == 0 && err.revents == 0) {
      return End::kExit;
    }
  }
}

}  // namespace

std::string ExitInfo::HowItEnded() const {
  switch (how) {
    case End::kExit:
      return Cat("exit code ", number);
    case End::kSignal:
      return Format("killed by signal {} ({})", number, ::strsignal(number));
    case End::kOverdue:
      return "killed";
    case End::kTooMuch:
      return Format("killed: it printed more than {} MiB", kMaxBytes >> 20);
  }
  return "";
}

ExitInfo RunSubprocess(const Subprocess& program) {
  Pipes pipes;
  const pid_t child = Spawn(program, pipes);
  // Closes the child's ends of the pipes: otherwise the pipes would never end.
  pipes.in.reader = UniqueFd();
  pipes.out.writer = UniqueFd();
  pipes.err.writer = UniqueFd();
  const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  const int error = handle.get() < 0 ? errno : 0;
  ExitInfo exit;
  if (error == 0) {
    exit.how = Communicate(program, handle, pipes, exit);
  }
  // The group's number stays taken until the leader is reaped, so no foreign group is hit.
  ::kill(-child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (error != 0) {  // without the pidfd we cannot see when the program ends
    throw Error(Code::kKernel, Format("cannot watch '{}'", program.path), ErrnoText(error));
  }
  if (exit.how == End::kExit) {
    exit.how = WIFSIGNALED(status) ? End::kSignal : End::kExit;
    exit.number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  }
  return exit;
}

}  // namespace nomad_bridge
