#include "base/guard.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <utility>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

namespace nomad_bridge {
namespace {

std::pair<UniqueFd, UniqueFd> OpenPipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw ErrnoError(Code::kKernel, "cannot create a pipe");
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void AwaitEnd(const UniqueFd& pipe) {
  char none = 0;
  while (::read(pipe.get(), &none, 1) < 0 && errno == EINTR) {
  }
}

// Runs in the guard.
[[noreturn]] void Keep(const std::function<std::string()>& make,
                       const std::function<void()>& take_back,
                       UniqueFd report,
                       const UniqueFd& owner) {
  ::setsid();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    ::signal(signal, SIG_IGN);
  }
  try {
    WriteAll(report.get(), make(), "a pipe");
  } catch (const std::exception&) {
    // The owner is gone, so there is nobody to report to.
  }
  report = UniqueFd();
  AwaitEnd(owner);
  try {
    take_back();
    ::_exit(EXIT_SUCCESS);
  } catch (const std::exception&) {
    ::_exit(EXIT_FAILURE);  // the owner tries again, and reports the error
  }
}

}  // namespace

Guard::Guard(const std::function<std::string()>& make, std::function<void()> take_back)
    : take_back_(std::move(take_back)) {
  auto [report, report_writer] = OpenPipe();
  auto [owner, alive] = OpenPipe();
  process_ = ::fork();
  if (process_ < 0) {
    throw ErrnoError(Code::kKernel, "cannot make a process");
  }
  if (process_ == 0) {
    alive = UniqueFd();
    report = UniqueFd();
    Keep(make, take_back_, std::move(report_writer), owner);
  }
  report_ = std::move(report);
  alive_ = std::move(alive);
}

Guard::~Guard() {
  try {
    TakeBack();
  } catch (const std::exception&) {
    // The caller is on its way out with another error.
  }
}

std::string Guard::Await() {
  constexpr std::size_t kMost = 16 << 20;
  std::string report = ReadAll(report_.get(), "a pipe", kMost);
  return !report.empty() ? report
                         : throw Error(Code::kKernel, "the process that keeps things was killed");
}

void Guard::TakeBack() {
  if (process_ < 0) {
    return;
  }
  alive_ = UniqueFd();
  int status = 0;
  while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS) {
    take_back_();
  }
}

}  // namespace nomad_bridge
