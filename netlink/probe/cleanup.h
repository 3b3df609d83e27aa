// Guarantees that what a probe began is ended, however this process ends.
//
// Child    A child of this process waits until this object or the process ends, and then acts. It
//          has a session of its own, so that a signal to this process's terminal or group does not
//          end it.
// Errors   kKernel if no child can be made. Failures in the child are not reported.
#pragma once

#include <functional>

#include <sys/types.h>

#include "base/fd.h"

namespace nomad_bridge::probe {

class Cleanup {
 public:
  // The child calls `act`, which must open its own netlink sockets: an answer to this process may
  // still be in the sockets that both have. Construct this object before any table of a probe: the
  // child inherits the descriptors that are open then, and would keep the table.
  explicit Cleanup(const std::function<void()>& act);
  Cleanup(const Cleanup&) = delete;
  Cleanup& operator=(const Cleanup&) = delete;
  // Returns after the child has acted.
  ~Cleanup();

 private:
  UniqueFd alive_;  // closing it wakes the child
  pid_t child_ = -1;
};

}  // namespace nomad_bridge::probe
