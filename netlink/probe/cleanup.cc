#include "netlink/probe/cleanup.h"

#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"

namespace nomad_bridge::probe {
namespace {

// Runs in the child: waits for the end of the pipe.
[[noreturn]] void ActAtTheEnd(const UniqueFd& end, const std::function<void()>& act) {
  ::setsid();
  char none = 0;
  while (::read(end.get(), &none, 1) < 0 && errno == EINTR) {
  }
  try {
    act();
  } catch (const std::exception&) {
    // Unlikely: the probe began in the same way. The kernel drops what is left in some minutes.
  }
  ::_exit(0);
}

}  // namespace

Cleanup::Cleanup(const std::function<void()>& act) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw ErrnoError(Code::kKernel, "cannot make a pipe for the end of a probe");
  }
  UniqueFd end(ends[0]);
  UniqueFd alive(ends[1]);
  child_ = ::fork();
  if (child_ < 0) {
    throw ErrnoError(Code::kKernel, "cannot make a process for the end of a probe");
  }
  if (child_ == 0) {
    alive = UniqueFd();
    ActAtTheEnd(end, act);
  }
  alive_ = std::move(alive);
}

Cleanup::~Cleanup() {
  alive_ = UniqueFd();
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace nomad_bridge::probe
