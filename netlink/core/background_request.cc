#include "netlink/core/background_request.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace nomad_bridge::netlink {
namespace {

// Of all descriptors those in `kept`, which is sorted, stay open.
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

}  // namespace

std::optional<BackgroundRequest> BackgroundRequest::Start(std::span<const char> bytes,
                                                          int socket,
                                                          std::span<const int> kept) {
  std::vector<int> open(kept.begin(), kept.end());
  open.push_back(socket);
  std::ranges::sort(open);
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    // Those of before: we have no other children between two calls.
  }
  const pid_t pid = ::fork();
  if (pid < 0) {
    return std::nullopt;
  }
  if (pid == 0) {
    const bool is_sent = CloseAllBut(open) && ::send(socket, bytes.data(), bytes.size(), 0) >= 0;
    ::_exit(is_sent ? EXIT_SUCCESS : EXIT_FAILURE);
  }
  UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!handle) {
    ::waitpid(pid, nullptr, 0);
    return std::nullopt;
  }
  return BackgroundRequest(pid, std::move(handle));
}

bool BackgroundRequest::HasEnded() {
  // ECHILD: reaped before.
  return ::waitpid(pid_, nullptr, WNOHANG) != 0;
}

}  // namespace nomad_bridge::netlink
