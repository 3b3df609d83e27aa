#include "base/file_lock.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <functional>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/time.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"

namespace nomad_bridge {
namespace {

// The locks that this thread holds, by kind.
thread_local std::array<int, 4> counts{};

int& CountOf(LockKind kind) {
  return counts.at(static_cast<std::size_t>(kind));
}

void RequireOrder(LockKind kind, const std::string& what) {
  const bool has_pool = CountOf(LockKind::kPool) != 0;
  const bool has_attachment = CountOf(LockKind::kAttachment) != 0;
  const bool has_last = CountOf(LockKind::kLeases) != 0 || CountOf(LockKind::kRules) != 0;
  if (has_last || (kind == LockKind::kPool && has_pool) ||
      (kind == LockKind::kAttachment && (has_pool || has_attachment))) {
    throw Error(Code::kInternal,
                Cat("refusing to wait for the lock of ", what),
                "another lock is held that has to be taken after it, or instead of it");
  }
}

// `is_whole` means that the file is for flock(2), for which a readable file is enough.
UniqueFd OpenLockFile(const std::string& path, bool is_whole) {
  constexpr int kFlags = O_NOFOLLOW | O_CLOEXEC;
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | kFlags, 0600));
  if (!fd && errno == EROFS && is_whole) {
    fd = UniqueFd(::open(path.c_str(), O_RDONLY | kFlags));
  }
  if (!fd) {
    const int error = errno;
    std::string what = Format("cannot open the lock '{}'", path);
    if (error == EISDIR || error == ELOOP) {
      throw InTheWayError(std::move(what), ErrnoText(error), path);
    }
    throw Error(Code::kIo, std::move(what), ErrnoText(error));
  }
  return fd;
}

// Interrupts a blocking system call every 50 ms while this object exists. One tick is not enough,
// because it may come just before the call blocks.
class Ticker {
 public:
  Ticker() {
    struct sigaction wake {};
    wake.sa_handler = [](int) {};  // without SA_RESTART: the call returns EINTR
    ::sigaction(SIGALRM, &wake, &before_);
    // The parent may have blocked the signal: masks survive execve(2).
    sigset_t alarm;
    ::sigemptyset(&alarm);
    ::sigaddset(&alarm, SIGALRM);
    ::sigprocmask(SIG_UNBLOCK, &alarm, &mask_before_);
    constexpr timeval kTick{.tv_sec = 0, .tv_usec = 50'000};
    constexpr itimerval kTicks{.it_interval = kTick, .it_value = kTick};
    ::setitimer(ITIMER_REAL, &kTicks, nullptr);
  }
  ~Ticker() {
    constexpr itimerval kNoTicks{};
    ::setitimer(ITIMER_REAL, &kNoTicks, nullptr);
    ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
    ::sigaction(SIGALRM, &before_, nullptr);
  }
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  struct sigaction before_ {};
  sigset_t mask_before_{};
};

// Calls `lock`, which blocks and returns like a system call, until it succeeds or the deadline
// passes.
void Wait(const std::function<int()>& lock, const std::string& path, const std::string& what) {
  const Deadline deadline = FromNow(kTimeout);
  const Ticker ticker;
  while (lock() != 0) {
    if (errno != EINTR) {
      throw ErrnoError(Code::kIo, Format("cannot lock '{}'", path));
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      throw Error(
          Code::kTryAgain,
          Cat("timed out waiting for the lock of ", what),
          Format(
              "another process has held the lock '{}' for more than {} s", path, kTimeout.count()));
    }
  }
}

// Returns whether `fd` is the file at `path`. A lock file may be removed while others wait for it.
bool IsAt(const std::string& path, int fd) {
  const std::optional<struct stat> there = FindStatus(path);
  struct stat here {};
  return there && ::fstat(fd, &here) == 0 && there->st_dev == here.st_dev &&
         there->st_ino == here.st_ino;
}

struct flock OneByte(std::uint64_t byte) {
  const auto start = static_cast<off_t>(byte & 0x7fff'ffff'ffff'ffff);
  return {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = 1};
}

// Locks the byte of the file, or all of it. Returns 0, or -1 with errno.
int LockNow(int fd, std::optional<std::uint64_t> byte, bool waits) {
  if (!byte) {
    return ::flock(fd, waits ? LOCK_EX : LOCK_EX | LOCK_NB);
  }
  struct flock range = OneByte(*byte);
  return ::fcntl(fd, waits ? F_OFD_SETLKW : F_OFD_SETLK, &range);
}

}  // namespace

FileLock::FileLock(UniqueFd fd, LockKind kind) : count_(&CountOf(kind)), fd_(std::move(fd)) {
  ++*count_;
}

void FileLock::Uncount::operator()(int* count) const {
  --*count;
  WriteKeptLog();
}

bool FileLock::IsAnyHeld() {
  return std::ranges::any_of(counts, [](int count) { return count != 0; });
}

FileLock FileLock::Take(const std::string& path,
                        std::optional<std::uint64_t> byte,
                        LockKind kind,
                        const std::string& what) {
  RequireOrder(kind, what);
  for (;;) {
    UniqueFd fd = OpenLockFile(path, !byte);
    if (LockNow(fd.get(), byte, false) != 0) {
      Wait([&] { return LockNow(fd.get(), byte, true); }, path, what);
    }
    if (byte || IsAt(path, fd.get())) {
      return FileLock(std::move(fd), kind);
    }
  }
}

std::optional<FileLock> FileLock::TryTake(const std::string& path,
                                          std::uint64_t byte,
                                          LockKind kind) {
  UniqueFd fd = OpenLockFile(path, false);
  if (LockNow(fd.get(), byte, false) == 0) {
    return FileLock(std::move(fd), kind);
  }
  if (errno == EAGAIN || errno == EACCES) {
    return std::nullopt;
  }
  throw ErrnoError(Code::kIo, Format("cannot lock '{}'", path));
}

}  // namespace nomad_bridge
