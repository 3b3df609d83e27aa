// Network namespaces: finding and comparing them, and the one way to act inside another.
//
// Sockets  A netlink socket stays in the namespace it was opened in: rtnl::Socket::In(ns) and
//          nft::Socket::In(ns) enter only to open theirs, so nothing else has to switch.
// Errors   kInvalidEnvironment if a path is no network namespace; kKernel if entering is refused.
// Owns     A Netns holds its namespace open, and alive.
// Threads  One thread per process is assumed: setns(2) moves only the caller's.
// Source   namespaces(7), ioctl_ns(2), setns(2).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/fd.h"

namespace nomad_bridge::netlink {

// The device and inode of a namespace's nsfs file are unique among the namespaces that exist now;
// the next namespace may have those of one that has gone. Its cookie is never used again before a
// reboot.
struct NetnsId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  // 0: the kernel has none, before Linux 5.14; nullopt: not asked for.
  std::optional<std::uint64_t> cookie = {};

  // Compares cookies only if both are known.
  bool operator==(const NetnsId& other) const {
    return device == other.device && inode == other.inode &&
           (!cookie || !other.cookie || cookie == other.cookie);
  }
};

// The cookie of the namespace that `socket` (any socket of ours) was opened in; 0 before Linux
// 5.14.
[[nodiscard]] std::uint64_t NetnsCookie(int socket);

class Netns {
 public:
  // The namespace this process is in.
  [[nodiscard]] static Netns Current();
  // The namespace behind `path` (a bind mount, /proc/<pid>/ns/net). Throws kInvalidEnvironment
  // naming CNI_NETNS if the path does not exist or is no network namespace.
  [[nodiscard]] static Netns Open(const std::string& path);
  // The same, but nullopt where Open() throws: DEL expects namespaces that have gone.
  [[nodiscard]] static std::optional<Netns> Find(const std::string& path);
  // The namespace that `socket` (any socket of ours) was opened in.
  [[nodiscard]] static Netns OfSocket(int socket);

  // Without the cookie, which needs a socket.
  [[nodiscard]] const NetnsId& id() const { return id_; }
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  explicit Netns(UniqueFd fd);
  UniqueFd fd_;
  NetnsId id_;
};

// Calls `act` once for every network namespace that a mount or a process holds, as far as it is
// visible here: in this mount namespace and in /proc. `path` leads to the namespace. Some may be
// gone by then.
void ForEachNetns(const std::function<void(const Netns& netns, const std::string& path)>& act);

// Runs `act` inside `ns` and returns to the former namespace, even if `act` throws. If that fails,
// the process aborts, rather than change the wrong namespace.
void InNetns(const Netns& ns, const std::function<void()>& act);

// Whether `act` of an InNetns() runs now, in a namespace that is not this process's own.
[[nodiscard]] bool IsInAnotherNetns();

}  // namespace nomad_bridge::netlink
