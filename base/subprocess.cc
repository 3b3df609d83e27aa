#include "base/subprocess.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/file_lock.h"
#include "base/text.h"

namespace nomad_bridge {
namespace {

constexpr std::size_t kMaxErrBytes = 1 << 20;
constexpr std::size_t kReadBytes = 1 << 16;       // what a pipe holds unless it was enlarged
constexpr int kMostReadsAfterEnd = 16;            // what an enlarged pipe holds, 1 MiB
constexpr std::chrono::milliseconds kBusy{1000};  // how long a file may be written to
constexpr std::chrono::milliseconds kBusyPause{20};
constexpr std::chrono::milliseconds kDying{1000};
constexpr int kCannotExecute = 127;

// A signal's disposition, for as long as this lives.
class Disposition {
 public:
  Disposition(int signal, void (*handler)(int)) : signal_(signal) {
    struct sigaction wanted {};
    wanted.sa_handler = handler;
    ::sigaction(signal_, &wanted, &before_);
  }
  ~Disposition() { ::sigaction(signal_, &before_, nullptr); }
  Disposition(const Disposition&) = delete;
  Disposition& operator=(const Disposition&) = delete;

 private:
  int signal_;
  struct sigaction before_ {};
};

struct Pipe {
  UniqueFd reader;
  UniqueFd writer;
};

Pipe MakePipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw ErrnoError(Code::kKernel, "cannot make a pipe");
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Only our end: the flag is not shared between the two, and programs expect theirs to block.
UniqueFd NonBlocking(UniqueFd fd) {
  ::fcntl(fd.get(), F_SETFL, O_NONBLOCK | ::fcntl(fd.get(), F_GETFL));
  return fd;
}

// What execve(2) wants; points into `words`.
std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

struct Streams {
  Pipe in = MakePipe();
  Pipe out = MakePipe();
  Pipe err = MakePipe();
};

// Ours and those the runtime left open in us: a program that outlived us with one of them would
// make its owner wait. The report moves out of the way; it closes itself when the program starts.
int CloseAllButStreams(int report) {
  constexpr int kKept = STDERR_FILENO + 1;
  if (report != kKept) {
    ::dup3(report, kKept, O_CLOEXEC);
  }
  // Linux before 5.9 has no such call: then ours alone are closed, by their own flag.
  ::syscall(SYS_close_range, kKept + 1, ~0U, 0U);
  return kKept;
}

// In the child. Never comes back; if the program cannot be started its errno goes to `report`.
[[noreturn]] void ExecChild(char* const* argv,
                            char* const* environment,
                            const Streams& streams,
                            int report,
                            pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) {
    ::_exit(kCannotExecute);  // it died before we could say that we do not want to outlive it
  }
  ::setpgid(0, 0);
  ::signal(SIGPIPE, SIG_DFL);
  ::dup2(streams.in.reader.get(), STDIN_FILENO);
  ::dup2(streams.out.writer.get(), STDOUT_FILENO);
  ::dup2(streams.err.writer.get(), STDERR_FILENO);
  report = CloseAllButStreams(report);
  ::execve(argv[0], argv, environment);
  const int error = errno;
  static_cast<void>(!::write(report, &error, sizeof error));
  ::_exit(kCannotExecute);
}

// A process of ours: killed with its whole group, and reaped, at the latest when this dies.
class Child {
 public:
  explicit Child(pid_t pid)
      : pid_(pid), handle_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {
    if (!handle_) {
      const Error error = ErrnoError(Code::kKernel, "cannot watch a process");
      static_cast<void>(KillAll());
      throw error;
    }
  }
  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), handle_(std::move(other.handle_)) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  Child& operator=(Child&&) = delete;
  ~Child() { static_cast<void>(KillAll()); }

  // Readable once the process has ended.
  [[nodiscard]] int handle() const { return handle_.get(); }

  // The whole group, and the end of it is awaited. nullopt if the leader hangs in the kernel: it
  // will be gone when the kernel lets go of it, and its new parent reaps it. The leader keeps the
  // group's number taken until it is reaped, so no stranger is hit.
  [[nodiscard]] std::optional<int> KillAll() {
    if (pid_ < 0) {
      return std::nullopt;
    }
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);  // it may not lead a group yet
    pollfd ended{.fd = handle_.get(), .events = POLLIN, .revents = 0};
    ::poll(&ended, 1, static_cast<int>(kDying.count()));
    int status = 0;
    const bool is_reaped = ::waitpid(std::exchange(pid_, -1), &status, WNOHANG) > 0;
    return is_reaped ? std::optional(status) : std::nullopt;
  }

 private:
  pid_t pid_;
  UniqueFd handle_;
};

// The running program, or the errno with which it could not be started.
struct Attempt {
  std::optional<Child> child;
  int error = 0;
};

// fork and not posix_spawn, which can neither tie the child's life to ours nor close what strangers
// left open.
Attempt Try(const Subprocess& program, const Streams& streams) {
  std::vector<std::string> words = program.arguments;
  words.insert(words.begin(), program.path);
  std::vector<std::string> variables = program.environment;
  const std::vector<char*> argv = Pointers(words);
  const std::vector<char*> environment = Pointers(variables);
  Pipe report = MakePipe();
  const pid_t self = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    throw ErrnoError(Code::kKernel, Cat("cannot make a process for ", Quoted(program.path)));
  }
  if (pid == 0) {
    ExecChild(argv.data(), environment.data(), streams, report.writer.get(), self);
  }
  Child child(pid);
  report.writer = UniqueFd();
  int error = 0;
  if (::read(report.reader.get(), &error, sizeof error) == sizeof error) {
    return {.child = std::nullopt, .error = error};
  }
  return {.child = std::move(child)};
}

Child Start(const Subprocess& program, const Streams& streams) {
  const Deadline deadline = FromNow(kBusy);
  for (;;) {
    Attempt attempt = Try(program, streams);
    if (attempt.child) {
      return std::move(*attempt.child);
    }
    if (attempt.error != ETXTBSY || std::chrono::steady_clock::now() >= deadline) {
      throw Error(Code::kIo, Cat("cannot start ", Quoted(program.path)), ErrnoText(attempt.error));
    }
    // There is no event for "nobody writes to it any more": inotify's comes a moment too early.
    ::poll(nullptr, 0, static_cast<int>(kBusyPause.count()));
  }
}

// What is said to the program and what it says, until it ends or has to be ended.
class PipePump {
 public:
  PipePump(const Subprocess& program, Streams& streams)
      : unsaid_(program.input),
        max_out_bytes_(program.max_out_bytes),
        in_(NonBlocking(std::exchange(streams.in.writer, UniqueFd()))),
        out_(NonBlocking(std::exchange(streams.out.reader, UniqueFd()))),
        err_(NonBlocking(std::exchange(streams.err.reader, UniqueFd()))) {}

  // kExit: it has ended by itself, one way or the other.
  [[nodiscard]] End Run(const Child& child, Deadline deadline) {
    for (;;) {
      std::array<pollfd, 4> events = {pollfd{child.handle(), POLLIN, 0},
                                      pollfd{in_.get(), POLLOUT, 0},
                                      pollfd{out_.get(), POLLIN, 0},
                                      pollfd{err_.get(), POLLIN, 0}};
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) {
        return End::kOverdue;
      }
      if (::poll(events.data(), events.size(), static_cast<int>(left.count())) <= 0) {
        continue;  // interrupted, or too late: the clock tells
      }
      Write();
      Drain();
      if (out.size() > max_out_bytes_) {
        return End::kTooMuch;
      }
      if (events[0].revents != 0) {
        return End::kExit;
      }
    }
  }

  // What is still in the pipes when all of the program is gone. A daemon that has left the group
  // may go on writing, so their end is not waited for.
  void ListenToTheRest() {
    for (int i = 0; i < kMostReadsAfterEnd && out.size() <= max_out_bytes_; ++i) {
      Drain();
    }
  }

  std::string out;
  std::string err;

 private:
  void Write() {
    if (in_ && !unsaid_.empty()) {
      const ssize_t said = ::write(in_.get(), unsaid_.data(), unsaid_.size());
      if (said < 0 && errno != EAGAIN && errno != EINTR) {
        unsaid_ = {};  // it does not want to hear more, as it may
      }
      unsaid_.remove_prefix(said > 0 ? static_cast<std::size_t>(said) : 0);
    }
    if (unsaid_.empty()) {
      in_ = UniqueFd();
    }
  }

  void Drain() {
    Take(out_, out);
    Take(err_, err);
    err.resize(std::min(err.size(), kMaxErrBytes));
  }

  static void Take(UniqueFd& fd, std::string& text) {
    std::array<char, kReadBytes> buffer;
    const ssize_t got = fd ? ::read(fd.get(), buffer.data(), buffer.size()) : -1;
    if (got > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got == 0) {
      fd = UniqueFd();
    }
  }

  std::string_view unsaid_;
  std::size_t max_out_bytes_;
  UniqueFd in_;
  UniqueFd out_;
  UniqueFd err_;
};

}  // namespace

ExitInfo RunSubprocess(const Subprocess& program) {
  // A program that does not read its stdin must not kill us, and one whose end nobody may see (the
  // runtime ignores SIGCHLD) would leave no exit code.
  const Disposition deaf(SIGPIPE, SIG_IGN);
  const Disposition waiting(SIGCHLD, SIG_DFL);
  Streams streams;
  Child child = Start(program, streams);
  const Deadline deadline = FromNow(program.timeout);
  PipePump conversation(program, streams);
  streams = Streams{.in = {}, .out = {}, .err = {}};  // the program's ends are the program's alone

  End how = conversation.Run(child, deadline);
  const std::optional<int> status = child.KillAll();
  conversation.ListenToTheRest();
  if (conversation.out.size() > program.max_out_bytes) {
    how = End::kTooMuch;
  }
  ExitInfo exit{.how = how, .out = std::move(conversation.out), .err = std::move(conversation.err)};
  if (how == End::kExit && status && WIFEXITED(*status)) {
    exit.number = WEXITSTATUS(*status);
  } else if (how == End::kExit && status) {
    exit.how = End::kSignal;
    exit.number = WTERMSIG(*status);
  }
  return exit;
}

}  // namespace nomad_bridge
