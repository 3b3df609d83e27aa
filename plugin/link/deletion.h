// Deleting the host end of a veth pair, and the other end with it.
//
// Wait     A link is out of sight long before the kernel has done with it: that is a grace period
//          of RCU, nine tenths of a DEL. A child waits for it (netlink/core/background_request.h).
//          So it does for what was removed from nf_tables: it is the last to close those sockets.
// Zombies  The child outlives us, and is reaped by the process that inherits it. A process 1 that
//          does not reap gets no more of them than DELs ran at once when it began: while the last
//          one is a zombie, nobody starts another, and a DEL waits.
// Shapes   /run/nomad-bridge/.deleter   the last child's pid, and '\n'
// Errors   kKernel, kTryAgain if the link is still there. What concerns `.deleter` is ignored.
#pragma once

#include "netlink/rtnl/rtnl.h"
#include "plugin/state/host.h"

namespace nomad_bridge::link {

void DeletePair(state::Host& host, const rtnl::Link& host_end);

}  // namespace nomad_bridge::link
