#include "netlink/probe/pending_reset.h"

#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "netlink/probe/injector.h"

namespace nomad_bridge::probe {
namespace {

// Runs in the child: waits for the end of the pipe, then injects the reset.
[[noreturn]] void ResetAtTheEnd(const UniqueFd& end,
                                const netlink::Netns& ns,
                                int link,
                                const std::vector<std::uint8_t>& frame) {
  ::setsid();
  char none = 0;
  while (::read(end.get(), &none, 1) < 0 && errno == EINTR) {
  }
  try {
    static_cast<void>(Inject(ns, link, frame));
  } catch (const std::exception&) {
    // Unlikely: the first packet was sent in the same way. Without the reset, the kernel drops the
    // half-open connection in a minute.
  }
  ::_exit(0);
}

}  // namespace

PendingReset::PendingReset(const netlink::Netns& ns,
                           int link,
                           const std::vector<std::uint8_t>& frame) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw ErrnoError(Code::kKernel, "cannot make a pipe for a probe's reset");
  }
  UniqueFd end(ends[0]);
  UniqueFd alive(ends[1]);
  child_ = ::fork();
  if (child_ < 0) {
    throw ErrnoError(Code::kKernel, "cannot make a process for a probe's reset");
  }
  if (child_ == 0) {
    alive = UniqueFd();
    ResetAtTheEnd(end, ns, link, frame);
  }
  alive_ = std::move(alive);
}

PendingReset::~PendingReset() {
  alive_ = UniqueFd();
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace nomad_bridge::probe
