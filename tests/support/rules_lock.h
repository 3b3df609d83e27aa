// The lock of the node's rules. A test holds it as another command would.
#pragma once

#include <utility>

#include <fcntl.h>

#include "base/fd.h"

namespace nomad_bridge::test {

// Takes the lock. Returns an empty UniqueFd if a command holds it.
[[nodiscard]] inline UniqueFd TryRulesLock() {
  UniqueFd lock(::open("/run/nomad-bridge/.lock", O_RDWR | O_CLOEXEC));
  struct flock first_byte {
    .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1
  };
  return ::fcntl(lock.get(), F_OFD_SETLK, &first_byte) == 0 ? std::move(lock) : UniqueFd();
}

}  // namespace nomad_bridge::test
