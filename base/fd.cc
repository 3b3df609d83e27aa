#include "base/fd.h"

#include <unistd.h>

namespace nomad_bridge {

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) {
    // On Linux the descriptor is gone even when close() reports EINTR, so there is nothing to
    // retry.
    ::close(fd_);
  }
}

}  // namespace nomad_bridge
