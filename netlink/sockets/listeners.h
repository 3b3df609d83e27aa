// Lists sockets that wait for packets from anybody: listening TCP sockets, and UDP sockets that are
// bound and not connected.
//
// Shapes  Ports in host byte order.
// Cost    A list per protocol and family, only of such sockets in this namespace: some 30 us each,
//         because the kernel walks its tables. FindHolder() reads the descriptors of one process
//         after the other: some ms.
// Kernel  Without tcp_diag, udp_diag (CONFIG_INET_DIAG) the lists are empty, and that is no error.
// Errors  kKernel, kTryAgain as in request_socket.h.
// Source  sock_diag(7), linux/inet_diag.h; proc_pid_fd(5).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ip.h"
#include "base/protocol.h"
#include "netlink/core/netns.h"
#include "netlink/core/request_socket.h"

namespace nomad_bridge::sockets {

struct Listener {
  Protocol protocol = Protocol::kTcp;
  Ip address;
  bool both_families = false;  // on "::", and not IPV6_V6ONLY
  std::uint16_t port = 0;
  int link = 0;  // the link that the socket is bound to; 0: none
  std::uint32_t inode = 0;
  // Only for TCP: how many connections wait to be accepted, and how many may wait. The kernel drops
  // further connections.
  std::uint32_t waiting = 0;
  std::uint32_t backlog = 0;

  // Returns whether a packet to `destination` would reach the socket, as far as addresses decide.
  [[nodiscard]] bool Accepts(const Ip& destination) const;
};

// The listeners of a namespace. Each protocol's are listed once, when first needed.
class ListenerLists {
 public:
  [[nodiscard]] static ListenerLists In(const netlink::Netns& ns);

  [[nodiscard]] const std::vector<Listener>& Of(Protocol protocol);

 private:
  explicit ListenerLists(netlink::RequestSocket socket) : socket_(std::move(socket)) {}

  netlink::RequestSocket socket_;
  std::map<Protocol, std::vector<Listener>> lists_;
};

struct Process {
  std::string id;
  std::string name;
  bool stopped = false;  // by a signal, or by a debugger
};

// Finds a process that has the socket with that inode open; nullopt if none can be seen from here.
[[nodiscard]] std::optional<Process> FindHolder(std::uint32_t inode);

// "process 1234 'nginx'"; "a process that cannot be seen from here".
[[nodiscard]] std::string HolderOf(std::uint32_t inode);

}  // namespace nomad_bridge::sockets
