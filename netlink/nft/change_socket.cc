#include "netlink/nft/change_socket.h"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>

#include <linux/netlink.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_lock.h"

namespace nomad_bridge::nft {
namespace {

constexpr int kFirstHanded = 3;  // SD_LISTEN_FDS_START

std::string_view Variable(const char* name) {
  const char* const value = ::getenv(name);
  return value == nullptr ? "" : value;
}

// Returns whether there was any message. Drops its content, because it does not matter which change
// it reports.
bool ReadAll(int socket) {
  for (bool has_any = false;; has_any = true) {
    char byte = 0;
    const ssize_t got = ::recv(socket, &byte, sizeof byte, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) {
      return has_any;
    }
    // ENOBUFS is left from before DrainChanges() switched overruns off.
    if (got < 0 && errno != ENOBUFS && errno != EINTR) {
      throw ErrnoError(Code::kKernel, "cannot read the socket of changes");
    }
  }
}

}  // namespace

UniqueFd TakeChangeSocket() {
  int domain = 0;
  socklen_t size = sizeof domain;
  const bool is_handed = Variable("LISTEN_PID") == std::to_string(::getpid()) &&
                         Variable("LISTEN_FDS") == "1" &&
                         ::getsockopt(kFirstHanded, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
                         domain == AF_NETLINK;
  return is_handed ? UniqueFd(kFirstHanded) : UniqueFd();
}

bool DrainChanges(const UniqueFd& socket) {
  const int on = 1;
  if (::setsockopt(socket.get(), SOL_NETLINK, NETLINK_NO_ENOBUFS, &on, sizeof on) != 0) {
    throw ErrnoError(Code::kKernel, "cannot set up the socket of changes");
  }
  const Deadline deadline = FromNow(kMaxBurst);
  pollfd waiting{.fd = socket.get(), .events = POLLIN, .revents = 0};
  bool has_any = false;
  do {
    has_any = ReadAll(socket.get()) || has_any;
  } while (std::chrono::steady_clock::now() < deadline &&
           ::poll(&waiting, 1, static_cast<int>(kQuiet.count())) > 0);
  return has_any;
}

}  // namespace nomad_bridge::nft
