#include "base/subprocess.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/text.h"

namespace nomad_bridge {
namespace {

constexpr std::size_t kMaxErrBytes = 1 << 20;
constexpr std::chrono::milliseconds kSizeCheck{10};
constexpr std::chrono::milliseconds kBusy{1000};  // how long a file may be written to
constexpr std::chrono::milliseconds kBusyPause{20};
constexpr std::chrono::milliseconds kDying{1000};
constexpr int kCannotExecute = 127;

// A runtime may have left SIGCHLD ignored; children would then leave no exit status.
class DefaultSigchld {
 public:
  DefaultSigchld() : before_(std::signal(SIGCHLD, SIG_DFL)) {}
  ~DefaultSigchld() { std::signal(SIGCHLD, before_); }
  DefaultSigchld(const DefaultSigchld&) = delete;
  DefaultSigchld& operator=(const DefaultSigchld&) = delete;

 private:
  void (*before_)(int);
};

// Holds `content`, to be read from its start. Appending, so that a file that was cut while the
// program runs has no hole afterwards.
UniqueFd MemoryFile(const char* name, std::string_view content = {}) {
  // Since Linux 6.3 the kernel logs a warning without kNoExecSeal; before, it refuses it.
  constexpr unsigned kNoExecSeal = 8;
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  UniqueFd file(::memfd_create(name, kFlags | kNoExecSeal));
  if (!file) {
    file = UniqueFd(::memfd_create(name, kFlags));
  }
  if (!file || ::fcntl(file.get(), F_SETFL, O_APPEND) != 0) {
    throw ErrnoError(Code::kKernel, Cat("cannot create a memory file for ", name));
  }
  WriteAll(file.get(), content, name);
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

struct Streams {
  UniqueFd in;
  UniqueFd out = MemoryFile("stdout");
  UniqueFd err = MemoryFile("stderr");
};

std::size_t SizeOf(const UniqueFd& file) {
  struct stat info {};
  return ::fstat(file.get(), &info) == 0 ? static_cast<std::size_t>(info.st_size) : 0;
}

// The first `max_bytes`. Ends the file: a daemon that still has it open would fill memory that
// nobody reads.
std::string TakeContent(const UniqueFd& file, std::size_t max_bytes) {
  ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW);
  std::string content(std::min(SizeOf(file), max_bytes), '\0');
  const ssize_t got = ::pread(file.get(), content.data(), content.size(), 0);
  content.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  static_cast<void>(!::ftruncate(file.get(), 0));
  return content;
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

// In the child. Does not return; if the program cannot be started its errno goes to `report`.
[[noreturn]] void ExecChild(char* const* argv,
                            char* const* environment,
                            const Streams& streams,
                            int report,
                            pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) {
    ::_exit(kCannotExecute);  // the parent died before the prctl
  }
  ::setpgid(0, 0);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGXFSZ, SIG_DFL);
  ::dup2(streams.in.get(), STDIN_FILENO);
  ::dup2(streams.out.get(), STDOUT_FILENO);
  ::dup2(streams.err.get(), STDERR_FILENO);
  // Everything else, also what the runtime left open in us without O_CLOEXEC. Linux before 5.9 does
  // not have the call and closes our own descriptors only, by their flag.
  ::syscall(SYS_close_range, STDERR_FILENO + 1, report - 1, 0U);
  ::syscall(SYS_close_range, report + 1, ~0U, 0U);
  ::execve(argv[0], argv, environment);
  const int error = errno;
  static_cast<void>(!::write(report, &error, sizeof error));
  ::_exit(kCannotExecute);
}

// The running program, or the errno of the execve(2) that failed.
struct Attempt {
  pid_t pid = -1;
  int error = 0;
};

// fork and not posix_spawn, which can neither tie the child's life to ours nor close descriptors
// it does not know of.
Attempt Fork(const Subprocess& program, const Streams& streams) {
  std::vector<std::string> words = program.arguments;
  words.insert(words.begin(), program.path);
  std::vector<std::string> variables = program.environment;
  const std::vector<char*> argv = Pointers(words);
  const std::vector<char*> environment = Pointers(variables);
  std::array<int, 2> ends{-1, -1};
  const bool has_pipe = ::pipe2(ends.data(), O_CLOEXEC) == 0;
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const pid_t self = ::getpid();
  const pid_t pid = has_pipe ? ::fork() : -1;
  if (pid < 0) {
    throw ErrnoError(Code::kKernel, Format("cannot create a process for '{}'", program.path));
  }
  if (pid == 0) {
    ExecChild(argv.data(), environment.data(), streams, writer.get(), self);
  }
  writer = UniqueFd();
  int error = 0;
  if (::read(reader.get(), &error, sizeof error) == sizeof error) {
    ::waitpid(pid, nullptr, 0);
    return {.error = error};
  }
  return {.pid = pid};
}

pid_t Start(const Subprocess& program, const Streams& streams) {
  const Deadline deadline = FromNow(kBusy);
  for (;;) {
    const Attempt attempt = Fork(program, streams);
    if (attempt.error == 0) {
      return attempt.pid;
    }
    if (attempt.error != ETXTBSY || std::chrono::steady_clock::now() >= deadline) {
      throw Error(Code::kIo, Format("cannot start '{}'", program.path), ErrnoText(attempt.error));
    }
    // There is no event for "no longer open for writing": inotify's comes a moment too early.
    ::poll(nullptr, 0, static_cast<int>(kBusyPause.count()));
  }
}

// A child process: killed with its group and reaped, at the latest by the destructor.
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
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { static_cast<void>(KillAll()); }

  // True if it ended within `wait`.
  [[nodiscard]] bool AwaitEnd(std::chrono::milliseconds wait) const {
    pollfd ended{.fd = handle_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&ended, 1, static_cast<int>(wait.count())) > 0;
  }

  // Kills the whole group and waits for the leader's end. nullopt if the leader hangs in the
  // kernel: its new parent will reap it. The group's number stays taken until the leader is reaped,
  // so no foreign group is hit.
  [[nodiscard]] std::optional<int> KillAll() {
    if (pid_ < 0) {
      return std::nullopt;
    }
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);  // it may not lead a group yet
    static_cast<void>(AwaitEnd(kDying));
    int status = 0;
    const bool is_reaped = ::waitpid(std::exchange(pid_, -1), &status, WNOHANG) > 0;
    return is_reaped ? std::optional(status) : std::nullopt;
  }

 private:
  pid_t pid_;
  UniqueFd handle_;
};

// kExit: it has ended by itself, by exit or by signal.
End Await(const Child& child, const Streams& streams, const Subprocess& program) {
  const Deadline deadline = FromNow(program.timeout);
  while (!child.AwaitEnd(kSizeCheck)) {
    if (SizeOf(streams.out) > program.max_out_bytes) {
      return End::kTooMuch;
    }
    if (SizeOf(streams.err) > kMaxErrBytes) {
      static_cast<void>(!::ftruncate(streams.err.get(), kMaxErrBytes));
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return End::kOverdue;
    }
  }
  return End::kExit;
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
      return Cat("killed: too much on stdout, ", out.size(), " bytes");
  }
  return "";
}

ExitInfo RunSubprocess(const Subprocess& program) {
  const DefaultSigchld sigchld;
  const Streams streams{.in = MemoryFile("stdin", program.input)};
  Child child(Start(program, streams));
  ExitInfo exit{.how = Await(child, streams, program)};
  const std::optional<int> status = child.KillAll();
  exit.out = TakeContent(streams.out, program.max_out_bytes + 1);
  exit.err = TakeContent(streams.err, kMaxErrBytes);
  if (exit.out.size() > program.max_out_bytes) {
    exit.how = End::kTooMuch;
  } else if (exit.how == End::kExit && status && WIFSIGNALED(*status)) {
    exit.how = End::kSignal;
    exit.number = WTERMSIG(*status);
  } else if (exit.how == End::kExit && status) {
    exit.number = WEXITSTATUS(*status);
  }
  return exit;
}

}  // namespace nomad_bridge
