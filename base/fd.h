// File descriptors that close themselves.
//
// Ownership  A UniqueFd owns its descriptor alone; -1 owns nothing. Open everything with O_CLOEXEC:
//            other programs that we run must inherit stdin, stdout and stderr only.
// Errors     none; errors of close(2) are ignored.
#pragma once

#include <utility>

#include <unistd.h>

namespace nomad_bridge {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() {
    if (fd_ >= 0) {
      ::close(fd_);  // not retried: Linux releases the descriptor even when it reports EINTR
    }
  }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace nomad_bridge
