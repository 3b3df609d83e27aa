// The container's end of the pair: addresses, up, routes, and the wait until packets flow.
//
// Errors   kTryAgain at the deadline (kTimeout per wait), naming what was awaited; kConflict if
//          duplicate address detection finds an address in use; kKernel.
#pragma once

#include "netlink/rtnl/rtnl.h"
#include "plugin/config/config.h"
#include "plugin/link/container.h"
#include "plugin/link/host_veth.h"
#include "plugin/state/host.h"

namespace nomad_bridge::link {

// Gives the container's end the addresses and routes of `result` and sets it up; then waits until
// the pair and the bridge carry packets (but not for spanning tree) and, with enabledad, until
// duplicate address detection is over. With disableContainerInterface nothing is done: the
// interface stays down.
void ConfigureContainer(state::Host& host,
                        Container& container,
                        const VethPair& veth,
                        const cni::Result& result,
                        const config::LinkConfig& config);

// Sets the container's end up without an address, and waits until packets flow: for an IPAM plugin
// that asks on the link.
void BringUpBare(state::Host& host,
                 Container& container,
                 const VethPair& veth,
                 const config::LinkConfig& config);

// Tells the neighbours of the container's end where the addresses of `record` are now, if they may
// know one of the family with another MAC, or, on a LAN, behind another node: an announcement goes
// to all ports of the bridge, which takes the kernel milliseconds where there are hundreds. Nothing
// while it is down. After the rules: other firewalls may drop what those do not accept.
void AnnounceIfNeeded(Container& container,
                      const VethPair& veth,
                      const state::Record& record,
                      const std::vector<Ip>& requested);

// Sets lo up; the kernel adds its addresses then.
void BringUpLoopback(Container& container);

}  // namespace nomad_bridge::link
