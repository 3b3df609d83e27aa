// Finds and compares network namespaces, and runs code inside another namespace.
//
// Sockets  A netlink socket stays in the namespace it was opened in: rtnl::Socket::In(ns) and
//          nft::Socket::In(ns) enter `ns` only to open their sockets, so other code need not
//          switch.
// Errors   kInvalidEnvironment if a path is no network namespace; kKernel if entering is refused.
// Owns     A Netns holds its namespace open, and alive.
// Threads  The process must have a single thread: setns(2) moves only the calling thread.
// Source   namespaces(7), ioctl_ns(2), setns(2).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/fd.h"

namespace nomad_bridge::netlink {

// Identifies a namespace. The device and inode of its nsfs file are unique only among the
// namespaces that exist now: the kernel may give them to a new namespace later. It reuses no cookie
// before a reboot.
struct NetnsId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  // 0: the kernel has no cookies (before Linux 5.14); nullopt: it was not read.
  std::optional<std::uint64_t> cookie = {};

  // Compares cookies only if both are known.
  bool operator==(const NetnsId& other) const {
    return device == other.device && inode == other.inode &&
           (!cookie || !other.cookie || cookie == other.cookie);
  }
};

// Returns the cookie of the namespace that `socket` (any socket of ours) was opened in; 0 before
// Linux 5.14.
[[nodiscard]] std::uint64_t NetnsCookie(int socket);

class Netns {
 public:
  // Makes a new namespace, which has no path: it ends with this object and its copies in other
  // processes.
  [[nodiscard]] static Netns Create();
  // Returns the namespace this process is in.
  [[nodiscard]] static Netns Current();
  // Opens the namespace at `path` (a bind mount, /proc/<pid>/ns/net). Throws kInvalidEnvironment
  // naming CNI_NETNS if the path does not exist or is no network namespace.
  [[nodiscard]] static Netns Open(const std::string& path);
  // Like Open(), but returns nullopt where Open() throws: DEL must accept that a namespace is gone.
  // Throws kKernel if fds or memory ran out.
  [[nodiscard]] static std::optional<Netns> Find(const std::string& path);
  // Returns the namespace that `socket` (any socket of ours) was opened in.
  [[nodiscard]] static Netns OfSocket(int socket);

  // Returns the id without the cookie, which only a socket can read.
  [[nodiscard]] const NetnsId& id() const { return id_; }
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  explicit Netns(UniqueFd fd);
  UniqueFd fd_;
  NetnsId id_;
};

// Calls `act` once for every network namespace that is visible here: bound to a mount of this mount
// namespace, or used by a process in /proc. `path` leads to the namespace. Namespaces that end
// meanwhile are skipped.
void ForEachNetns(const std::function<void(const Netns& netns, const std::string& path)>& act);

// Runs `act` inside `ns` and returns to the former namespace, even if `act` throws. Aborts the
// process if it cannot return, so that nothing changes the wrong namespace.
void InNetns(const Netns& ns, const std::function<void()>& act);

// Returns whether the caller runs inside InNetns(), in a namespace that is not this process's own.
[[nodiscard]] bool IsInAnotherNetns();

}  // namespace nomad_bridge::netlink
