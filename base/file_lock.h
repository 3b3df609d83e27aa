// Locks between processes, never waited for without a deadline.
//
// Two kinds, both released by the kernel when their holder dies, however it dies:
//   FileLock   a whole file, flock(2): the lease folder's lock, which the reference host-local
//              takes too
//   RangeLock  one byte of a file (its offset's highest bit is ignored), an open-file-description
//              lock (fcntl(2), F_OFD_SETLK): one file serves any number of locks, so nothing per
//              attachment is left lying about
// Order      A command takes its own attachment's lock first, then the leases' lock or the rules', and
//            never one of these while it holds the other. The lock of another attachment is only tried
//            (TryTake) while any lock is held. So no two commands can wait for each other.
// Errors     kTryAgain when the deadline passes, naming what was waited for; kIo if the file cannot
//            be opened; kInternal, before waiting, if the order above is violated.
// Waiting    blocks in the kernel and is woken by an interval timer (SIGALRM) to look at the clock:
//            no polling. One thread per process is assumed.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/fd.h"

namespace nomad_bridge {

// How long a command of ours waits for anybody else before it gives up.
constexpr std::chrono::seconds kTimeout{10};

using Deadline = std::chrono::steady_clock::time_point;

[[nodiscard]] inline Deadline FromNow(std::chrono::milliseconds wait) {
  return std::chrono::steady_clock::now() + wait;
}

enum class LockKind { kAttachment, kLeases, kRules };

// A lock that this thread holds, counted by its kind as long as it lives.
class HeldLock {
 public:
  explicit HeldLock(LockKind kind);

 private:
  struct Uncount {
    void operator()(int* count) const { --*count; }
  };
  std::unique_ptr<int, Uncount> count_;
};

class FileLock {
 public:
  // Opens (creates) `path` and takes it exclusively. `what` completes "timed out waiting for the lock of ...".
  [[nodiscard]] static FileLock Take(const std::string& path,
                                     LockKind kind,
                                     const std::string& what);

 private:
  FileLock(UniqueFd fd, LockKind kind) : fd_(std::move(fd)), held_(kind) {}
  UniqueFd fd_;
  HeldLock held_;
};

class RangeLock {
 public:
  [[nodiscard]] static RangeLock Take(const std::string& path,
                                      std::uint64_t byte,
                                      LockKind kind,
                                      const std::string& what);
  // nullopt if somebody else holds it now.
  [[nodiscard]] static std::optional<RangeLock> TryTake(const std::string& path,
                                                        std::uint64_t byte,
                                                        LockKind kind);

 private:
  RangeLock(UniqueFd fd, LockKind kind) : fd_(std::move(fd)), held_(kind) {}
  UniqueFd fd_;
  HeldLock held_;
};

}  // namespace nomad_bridge
