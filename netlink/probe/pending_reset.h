// The reset of a probe's half-open connection, which comes however this process ends.
//
// Child    A child of this process waits until this object goes, or the process does, and injects
//          the reset then. It leads a session of its own, so that what ends this process by its
//          terminal or its group does not end it.
// Errors   kKernel if there is no child to be had. What the child cannot do is not told.
#pragma once

#include <cstdint>
#include <vector>

#include <sys/types.h>

#include "base/fd.h"
#include "netlink/core/netns.h"

namespace nomad_bridge::probe {

class PendingReset {
 public:
  // `frame` will come in by `link` of `ns` (injector.h). To be made before any table of a probe:
  // the child holds open what is open then.
  PendingReset(const netlink::Netns& ns, int link, const std::vector<std::uint8_t>& frame);
  PendingReset(const PendingReset&) = delete;
  PendingReset& operator=(const PendingReset&) = delete;
  // The reset has been injected when this returns.
  ~PendingReset();

 private:
  UniqueFd alive_;  // the child sees its end
  pid_t child_ = -1;
};

}  // namespace nomad_bridge::probe
