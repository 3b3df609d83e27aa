#include "tests/support/process.h"

#include <csignal>
#include <cstdio>
#include <cstring>

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace nomad_bridge::test {
namespace {

UniqueFd MemoryFile(const std::string& content) {
  UniqueFd fd(::memfd_create("test", MFD_CLOEXEC));
  if (!fd) {
    throw ErrnoError(Code::kIo, "cannot make a file in memory");
  }
  for (std::size_t done = 0; done < content.size();) {
    const ssize_t wrote = ::write(fd.get(), content.data() + done, content.size() - done);
    if (wrote <= 0) {
      throw ErrnoError(Code::kIo, "cannot fill a file in memory");
    }
    done += static_cast<std::size_t>(wrote);
  }
  ::lseek(fd.get(), 0, SEEK_SET);
  return fd;
}

std::string Content(const UniqueFd& fd) {
  std::string content;
  std::string buffer(65536, '\0');
  while (true) {
    const auto offset = static_cast<off_t>(content.size());
    const ssize_t got = ::pread(fd.get(), buffer.data(), buffer.size(), offset);
    if (got <= 0) {
      return content;
    }
    content.append(buffer, 0, static_cast<std::size_t>(got));
  }
}

// Returns pointers to the strings for exec(3), which does not write to them. The strings must
// outlive the pointers.
std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& string : strings) {
    pointers.push_back(const_cast<char*>(string.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

// Returns all variables of the child as "NAME=value".
std::vector<std::string> Environment(const Command& command) {
  std::vector<std::string> environment;
  for (char** entry = environ; command.inherits_environment && *entry != nullptr; ++entry) {
    const std::string name(*entry, std::strcspn(*entry, "="));
    if (!command.variables.contains(name)) {
      environment.emplace_back(*entry);
    }
  }
  for (const auto& [name, value] : command.variables) {
    if (value) {
      environment.push_back(Cat(name, '=', *value));
    }
  }
  return environment;
}

}  // namespace

std::string Outcome::Text() const {
  return Cat("exit code ", exit_code, "\nstdout: ", out, "\nstderr: ", err);
}

std::ostream& operator<<(std::ostream& stream, const Outcome& outcome) {
  return stream << outcome.Text();
}

Process::Process(pid_t pid, UniqueFd out, UniqueFd err)
    : pid_(pid), out_(std::move(out)), err_(std::move(err)) {}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)) {}

Process::~Process() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

Process Process::Start(const Command& command) {
  const UniqueFd in = MemoryFile(command.input);
  UniqueFd out = MemoryFile("");
  UniqueFd err = MemoryFile("");
  const std::vector<std::string> environment = Environment(command);
  const std::vector<char*> argv = Pointers(command.argv);
  const std::vector<char*> envp = Pointers(environment);
  // Uses vfork(2) if possible, as runtimes do: fork(2) would copy our page tables, and that would
  // show in the benchmark.
  const pid_t pid = command.in_child ? ::fork() : ::vfork();
  if (pid < 0) {
    throw ErrnoError(Code::kInternal, "cannot fork");
  }
  if (pid == 0) {  // vfork(2) shares our memory: system calls only
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::signal(SIGPIPE, SIG_DFL);
    ::dup2(in.get(), STDIN_FILENO);
    ::dup2(out.get(), STDOUT_FILENO);
    ::dup2(err.get(), STDERR_FILENO);
    if (command.in_child) {
      command.in_child();
    }
    ::execvpe(argv[0], argv.data(), envp.data());
    const char* const reason = ::strerrordesc_np(errno);
    ::dprintf(STDERR_FILENO, "cannot execute %s: %s\n", argv[0], reason);
    ::_exit(127);
  }
  return {pid, std::move(out), std::move(err)};
}

Outcome Process::Wait() {
  const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  pollfd event{.fd = handle.get(), .events = POLLIN, .revents = 0};
  const auto patience = std::chrono::milliseconds(kProgramPatience).count();
  if (::poll(&event, 1, static_cast<int>(patience)) != 1) {
    throw std::runtime_error(Cat("process ", pid_, " does not end; it said: ", Content(err_)));
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  return Collect(status);
}

Outcome Process::Collect(int status) {
  pid_ = -1;
  Outcome outcome{.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                  .out = Content(out_),
                  .err = Content(err_),
                  .json = nullptr};
  outcome.json = json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
  if (outcome.json.is_discarded()) {
    outcome.json = nullptr;
  }
  return outcome;
}

void WriteProgram(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  fs::permissions(path, fs::perms(0755));
}

Outcome Execute(const Command& command) {
  return Process::Start(command).Wait();
}

Outcome Execute(const std::vector<std::string>& argv, const std::string& input) {
  return Execute(Command{.argv = argv, .input = input, .variables = {}});
}

Outcome Succeeded(Outcome outcome) {
  if (outcome.exit_code != 0) {
    throw std::runtime_error(outcome.Text());
  }
  return outcome;
}

std::string Must(const Command& command) {
  const Outcome outcome = Execute(command);
  if (outcome.exit_code != 0) {
    std::string line;
    for (const std::string& word : command.argv) {
      line += Cat(word, ' ');
    }
    throw std::runtime_error(Cat(line, "failed: ", outcome));
  }
  return outcome.out;
}

}  // namespace nomad_bridge::test
