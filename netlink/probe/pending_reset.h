// Guarantees the reset of a probe's half-open connection, however this process ends.
//
// Child    A child of this process waits until this object or the process ends, and then injects
//          the reset. It has a session of its own, so that a signal to this process's terminal or
//          group does not end it.
// Errors   kKernel if no child can be made. Failures in the child are not reported.
#pragma once

#include <cstdint>
#include <vector>

#include <sys/types.h>

#include "base/fd.h"
#include "netlink/core/netns.h"

namespace nomad_bridge::probe {

class PendingReset {
 public:
  // The child injects `frame` at `link` of `ns` (injector.h). Construct this object before any
  // table of a probe: the child inherits the descriptors that are open then, and would keep the
  // table.
  PendingReset(const netlink::Netns& ns, int link, const std::vector<std::uint8_t>& frame);
  PendingReset(const PendingReset&) = delete;
  PendingReset& operator=(const PendingReset&) = delete;
  // Returns after the reset was injected.
  ~PendingReset();

 private:
  UniqueFd alive_;  // closing it wakes the child
  pid_t child_ = -1;
};

}  // namespace nomad_bridge::probe
