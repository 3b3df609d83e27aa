#include "netlink/core/change_socket.h"

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

namespace nomad_bridge::netlink {
namespace {

constexpr int kFirstHanded = 3;  // SD_LISTEN_FDS_START

std::string_view Variable(const char* name) {
  const char* const value = ::getenv(name);
  return value == nullptr ? "" : value;
}

void ReadAll(int socket) {
  // Nothing of a message is wanted. ENOBUFS is one, too, of before overruns were switched off.
  while (::recv(socket, nullptr, 0, MSG_DONTWAIT) >= 0 || errno == ENOBUFS || errno == EINTR) {
  }
  if (errno != EAGAIN) {
    throw ErrnoError(Code::kKernel, "cannot read the socket of changes");
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

void AwaitQuiet(const UniqueFd& socket) {
  const int on = 1;
  if (::setsockopt(socket.get(), SOL_NETLINK, NETLINK_NO_ENOBUFS, &on, sizeof on) != 0) {
    throw ErrnoError(Code::kKernel, "cannot set up the socket of changes");
  }
  const Deadline deadline = FromNow(kLongestBurst);
  pollfd waiting{.fd = socket.get(), .events = POLLIN, .revents = 0};
  do {
    ReadAll(socket.get());
  } while (std::chrono::steady_clock::now() < deadline &&
           ::poll(&waiting, 1, static_cast<int>(kQuiet.count())) > 0);
}

}  // namespace nomad_bridge::netlink
