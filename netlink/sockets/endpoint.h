// TCP sockets in another network namespace.
//
// Errors  kKernel if a socket cannot be opened, or does not get its address.
#pragma once

#include <cstdint>

#include <sys/socket.h>

#include "base/fd.h"
#include "base/file_lock.h"
#include "base/ip.h"
#include "netlink/core/netns.h"

namespace nomad_bridge::sockets {

// An address as the system calls take it.
struct SocketAddress {
  SocketAddress(const Ip& address, std::uint16_t port);
  [[nodiscard]] const sockaddr* get() const {
    return static_cast<const sockaddr*>(static_cast<const void*>(&storage));
  }

  sockaddr_storage storage{};
  socklen_t size = 0;
};

struct Listening {
  UniqueFd socket;  // the kernel accepts connections until it is closed
  std::uint16_t port = 0;
};

// Listens on `address`, also if `ns` does not have the address. `port` 0: the kernel chooses one.
[[nodiscard]] Listening ListenAt(const netlink::Netns& ns, const Ip& address, std::uint16_t port);

// Returns whether somebody accepts a connection from `ns` before the deadline.
[[nodiscard]] bool CanConnect(const netlink::Netns& ns,
                              const Ip& address,
                              std::uint16_t port,
                              Deadline deadline);

}  // namespace nomad_bridge::sockets
