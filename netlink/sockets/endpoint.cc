#include "netlink/sockets/endpoint.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>

#include <netinet/in.h>
#include <poll.h>

#include "base/error.h"
#include "base/text.h"

namespace nomad_bridge::sockets {
namespace {

UniqueFd OpenTcp(const netlink::Netns& ns, const Ip& address) {
  UniqueFd socket;
  netlink::InNetns(ns, [&] {
    socket = UniqueFd(::socket(address.is_ipv4() ? AF_INET : AF_INET6,
                               SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                               IPPROTO_TCP));
  });
  return socket ? std::move(socket)
                : throw ErrnoError(Code::kKernel, "cannot open a socket of TCP");
}

void Set(const UniqueFd& socket, int level, int option) {
  const int on = 1;
  static_cast<void>(::setsockopt(socket.get(), level, option, &on, sizeof on));
}

}  // namespace

SocketAddress::SocketAddress(const Ip& address, std::uint16_t port) {
  const std::span<const std::uint8_t> bytes = address.bytes();
  if (address.is_ipv4()) {
    sockaddr_in ipv4{.sin_family = AF_INET, .sin_port = htons(port)};
    std::memcpy(&ipv4.sin_addr, bytes.data(), bytes.size());
    std::memcpy(&storage, &ipv4, size = sizeof ipv4);
  } else {
    sockaddr_in6 ipv6{.sin6_family = AF_INET6, .sin6_port = htons(port)};
    std::memcpy(&ipv6.sin6_addr, bytes.data(), bytes.size());
    std::memcpy(&storage, &ipv6, size = sizeof ipv6);
  }
}

Listening ListenAt(const netlink::Netns& ns, const Ip& address, std::uint16_t port) {
  Listening listening = {.socket = OpenTcp(ns, address), .port = port};
  Set(listening.socket, SOL_SOCKET, SO_REUSEADDR);
  Set(listening.socket, IPPROTO_IP, IP_FREEBIND);
  if (!address.is_ipv4()) {
    Set(listening.socket, IPPROTO_IPV6, IPV6_V6ONLY);
  }
  const SocketAddress wanted(address, port);
  if (::bind(listening.socket.get(), wanted.get(), wanted.size) != 0 ||
      ::listen(listening.socket.get(), SOMAXCONN) != 0) {
    throw ErrnoError(Code::kKernel, Format("cannot listen on {} port {}", address, port));
  }
  SocketAddress given = wanted;
  auto* const bytes = static_cast<sockaddr*>(static_cast<void*>(&given.storage));
  if (::getsockname(listening.socket.get(), bytes, &given.size) != 0) {
    throw ErrnoError(Code::kKernel, "cannot read the address of a socket");
  }
  std::uint16_t number = 0;
  const std::size_t at =
      address.is_ipv4() ? offsetof(sockaddr_in, sin_port) : offsetof(sockaddr_in6, sin6_port);
  std::memcpy(
      &number, static_cast<const char*>(static_cast<void*>(&given.storage)) + at, sizeof number);
  listening.port = ntohs(number);
  return listening;
}

bool CanConnect(const netlink::Netns& ns,
                const Ip& address,
                std::uint16_t port,
                Deadline deadline) {
  const UniqueFd socket = OpenTcp(ns, address);
  const SocketAddress to(address, port);
  if (::connect(socket.get(), to.get(), to.size) == 0) {
    return true;
  }
  if (errno != EINPROGRESS) {
    return false;
  }
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  pollfd waiting{.fd = socket.get(), .events = POLLOUT, .revents = 0};
  int error = 0;
  socklen_t size = sizeof error;
  return ::poll(&waiting, 1, static_cast<int>(std::max<long>(left.count(), 0))) > 0 &&
         ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

}  // namespace nomad_bridge::sockets
