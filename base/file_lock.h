// Locks between processes, with a deadline. Released by the kernel when their process dies.
//
// Shapes     a whole file   flock(2): the lock of the lease directory, which the reference
//                           host-local takes too
//            one byte of it (the offset's highest bit is ignored), an open-file-description lock:
//                           one file serves any number of attachments
//            A symbolic link in the place of a lock file is not followed.
// Errors     kTryAgain when the deadline passes, naming the lock; kIo if the file cannot be opened;
//            kInternal, before waiting, if the order below is violated.
// Ownership  The object holds the lock; its destructor releases both. A file of bytes stays;
//            the holder of a whole file may remove it.
// Locks      A command takes its own attachment's lock first, then the lock of a full pool, then
//            the leases' lock or the rules' lock, but never these two together. While it holds any
//            lock, it only tries the lock of another attachment (TryTake). So no two commands can
//            wait for each other.
// Waiting    blocks in the kernel; an interval timer (SIGALRM) interrupts it to check the
//            deadline. Assumes one thread.
// Source     flock(2), F_OFD_SETLKW in fcntl(2), setitimer(2).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/fd.h"

namespace nomad_bridge {

// How long a command waits for a lock or for another program.
constexpr std::chrono::seconds kTimeout{10};

using Deadline = std::chrono::steady_clock::time_point;

[[nodiscard]] inline Deadline FromNow(std::chrono::milliseconds wait) {
  return std::chrono::steady_clock::now() + wait;
}

enum class LockKind { kAttachment, kPool, kLeases, kRules };

// A lock that this thread holds. While the object exists, it counts as a held lock of its kind.
class FileLock {
 public:
  // Opens or creates `path` and locks it, or one byte of it. `what` completes "timed out waiting
  // for the lock of ...".
  [[nodiscard]] static FileLock Take(const std::string& path,
                                     std::optional<std::uint64_t> byte,
                                     LockKind kind,
                                     const std::string& what);
  // Returns nullopt if another process holds the lock.
  [[nodiscard]] static std::optional<FileLock> TryTake(const std::string& path,
                                                       std::uint64_t byte,
                                                       LockKind kind);
  // Returns whether this thread holds any lock.
  [[nodiscard]] static bool IsAnyHeld();

 private:
  FileLock(UniqueFd fd, LockKind kind);

  struct Uncount {
    void operator()(int* count) const;
  };
  // Declared before the descriptor: members are destroyed in reverse order, so the lock ends first,
  // and the kept log is written after that.
  std::unique_ptr<int, Uncount> count_;
  UniqueFd fd_;
};

}  // namespace nomad_bridge
