#include "netlink/core/background_request.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>
#include <vector>

#include <linux/membarrier.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace nomad_bridge::netlink {
namespace {

// Closes all descriptors except those in `kept`, which is sorted.
bool CloseAllBut(std::span<const int> kept) {
  unsigned int from = 0;
  for (const int fd : kept) {
    const auto number = static_cast<unsigned int>(fd);
    if (number > from && ::syscall(SYS_close_range, from, number - 1, 0U) != 0) {
      return false;
    }
    from = number + 1;
  }
  return ::syscall(SYS_close_range, from, ~0U, 0U) == 0;
}

int Membarrier(int command) {
  return static_cast<int>(::syscall(SYS_membarrier, command, 0, 0));
}

// Forks a child that closes all but `kept` and then does `work`, which returns whether it
// succeeded.
template <typename Work>
std::optional<pid_t> StartChild(std::vector<int> kept, Work work) {
  std::ranges::sort(kept);
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    // Reaps the children of earlier calls: we have no others between two calls.
  }
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::_exit(CloseAllBut(kept) && work() ? EXIT_SUCCESS : EXIT_FAILURE);
  }
  return pid < 0 ? std::nullopt : std::optional(pid);
}

}  // namespace

std::optional<pid_t> CloseAfterGracePeriod(std::span<const int> kept) {
  const int known = Membarrier(MEMBARRIER_CMD_QUERY);
  if (known < 0 || (known & MEMBARRIER_CMD_GLOBAL) == 0) {
    return std::nullopt;
  }
  return StartChild({kept.begin(), kept.end()},
                    [] { return Membarrier(MEMBARRIER_CMD_GLOBAL) == 0; });
}

std::optional<BackgroundRequest> BackgroundRequest::Start(std::span<const char> bytes,
                                                          int socket,
                                                          std::span<const int> kept) {
  std::vector<int> open(kept.begin(), kept.end());
  open.push_back(socket);
  const std::optional<pid_t> pid = StartChild(std::move(open), [&] {
    const bool is_sent = ::send(socket, bytes.data(), bytes.size(), 0) >= 0;
    // The parent may have used a socket of `kept` after the request began. Closing such a socket is
    // cheap only after a grace period: see CloseAfterGracePeriod().
    Membarrier(MEMBARRIER_CMD_GLOBAL);
    return is_sent;
  });
  if (!pid) {
    return std::nullopt;
  }
  UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0)));
  if (!handle) {
    ::waitpid(*pid, nullptr, 0);
    return std::nullopt;
  }
  return BackgroundRequest(*pid, std::move(handle));
}

bool BackgroundRequest::HasEnded() {
  // An error (ECHILD) means that the child was reaped before.
  return ::waitpid(pid_, nullptr, WNOHANG) != 0;
}

}  // namespace nomad_bridge::netlink
