// Child processes that send a request and wait for the kernel while this process goes on. The
// kernel often carries a request out long before it lets the sender continue.
//
// Child    First closes every descriptor except the sockets it needs, so that it keeps no lock and
//          no pipe whose end somebody waits for. May outlive this process.
// Replies  None on success. A refusal arrives at the socket under a sequence number that no other
//          request has, so nobody reads it. The caller checks whether the change was made. If it
//          was not and the child has ended, the caller sends the request again itself.
// Errors   None. The result is nullopt if no process can be created (RLIMIT_NPROC, pids.max,
//          seccomp).
// Assumes  one thread
// Source   fork(2), pidfd_open(2) (Linux 5.3), close_range(2) (5.9), membarrier(2)
#pragma once

#include <optional>
#include <span>

#include <sys/types.h>

#include "base/fd.h"

namespace nomad_bridge::netlink {

// Starts a child that closes `kept` after an RCU grace period, and returns its pid. This is for
// sockets that removed something from nf_tables: the last process that closes such a socket waits
// until the kernel has freed the removed objects, and meanwhile nobody can change nf_tables. After
// a grace period, closing costs nothing. Returns nullopt if the kernel lacks the system call
// (nohz_full) or no child can be created; then this process waits when it ends.
[[nodiscard]] std::optional<pid_t> CloseAfterGracePeriod(std::span<const int> kept);

// A request that a child sends and waits for.
class BackgroundRequest {
 public:
  // `bytes` is a whole request, which the child sends through `socket`. The child keeps `kept`,
  // other descriptors, open until it ends.
  [[nodiscard]] static std::optional<BackgroundRequest> Start(std::span<const char> bytes,
                                                              int socket,
                                                              std::span<const int> kept);
  BackgroundRequest(BackgroundRequest&& other) noexcept = default;
  BackgroundRequest& operator=(BackgroundRequest&&) = delete;
  BackgroundRequest(const BackgroundRequest&) = delete;
  BackgroundRequest& operator=(const BackgroundRequest&) = delete;
  ~BackgroundRequest() = default;

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Becomes readable, for poll(2), when the child has ended.
  [[nodiscard]] int fd() const { return handle_.get(); }
  // Reaps the child if it has ended.
  [[nodiscard]] bool HasEnded();

 private:
  BackgroundRequest(pid_t pid, UniqueFd handle) : pid_(pid), handle_(std::move(handle)) {}

  pid_t pid_;
  UniqueFd handle_;
};

}  // namespace nomad_bridge::netlink
