// Children that wait for the kernel while we go on. The kernel has often done a request long before
// it releases the process that sent it.
//
// Child    Closes every descriptor but the sockets it needs before all else: no stream whose end
//          somebody waits for, no lock. It writes no memory that is ours, and outlives us.
// Replies  There are none on success; a refusal goes to the socket, under a number that no other
//          request has. So the caller looks at what the request was to change, and if the child
//          has ended without that, sends the request again itself.
// Errors   none: no process can be made (RLIMIT_NPROC, pids.max, seccomp) is nullopt.
// Assumes  one thread
// Source   fork(2), pidfd_open(2) (Linux 5.3), close_range(2) (5.9), membarrier(2)
#pragma once

#include <optional>
#include <span>

#include <sys/types.h>

#include "base/fd.h"

namespace nomad_bridge::netlink {

// Starts a child that closes `kept` after an RCU grace period, and returns its pid. For sockets by
// which something was removed from nf_tables: the process that closes the last of them waits until
// the kernel has freed what was removed, and meanwhile nobody can change nf_tables. After a grace
// period closing costs nothing. Returns nullopt if the kernel has no such call (nohz_full), or no
// child could be made; then this process waits when it ends.
[[nodiscard]] std::optional<pid_t> CloseAfterGracePeriod(std::span<const int> kept);

// A request that a child sends and waits for.
class BackgroundRequest {
 public:
  // `bytes`: a whole request, sent by `socket`. `kept`: other descriptors that the child keeps open
  // until the kernel releases it.
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
