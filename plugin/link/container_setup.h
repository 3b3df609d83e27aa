// The container's end of the pair: addresses, routes, up, and awaited until packets flow.
//
// Errors   kTryAgain at the deadline, naming what was awaited; kConflict if duplicate address
//          detection finds an address taken; kKernel.
#pragma once

#include "netlink/rtnl/rtnl.h"
#include "plugin/config/config.h"
#include "plugin/link/container.h"
#include "plugin/link/host_veth.h"
#include "plugin/state/host.h"

namespace nomad_bridge::link {

// Addresses, up, routes, as `result` says them for the interface of `link`; waits until the pair and
// the bridge carry packets and, with enabledad, until the addresses are known to be nobody else's.
// With disableContainerInterface the interface stays down, and there is nothing to wait for.
void ConfigureContainer(state::Host& host,
                        Container& container,
                        const VethPair& veth,
                        const cni::Result& result,
                        const config::LinkConfig& config);

// lo up, with the addresses the kernel gives it then.
void BringUpLoopback(Container& container);

}  // namespace nomad_bridge::link
