// Sets up the container's end of the pair, with its addresses and routes, and waits until packets
// flow.
//
// Errors   kTryAgain at the deadline (kTimeout for each wait); the error names what did not happen.
//          kConflict if duplicate address detection finds that an address is in use; kKernel.
#pragma once

#include "netlink/rtnl/rtnl.h"
#include "plugin/config/config.h"
#include "plugin/link/container.h"
#include "plugin/link/host_veth.h"
#include "plugin/state/host.h"

namespace nomad_bridge::link {

// Gives the container's end the addresses and routes of `result` and sets it up. Then waits until
// the pair and the bridge carry packets (but not for spanning tree) and, with enabledad, until
// duplicate address detection is over. With disableContainerInterface does nothing: the interface
// stays down.
void ConfigureContainer(state::Host& host,
                        Container& container,
                        const VethPair& veth,
                        const cni::Result& result,
                        const config::LinkConfig& config);

// Sets the container's end up without an address, and waits until packets flow. Needed for an IPAM
// plugin that sends its requests over the link.
void BringUpBare(state::Host& host,
                 Container& container,
                 const VethPair& veth,
                 const config::LinkConfig& config);

// Announces the addresses of `record` to the neighbours of the container's end. Announces only
// families for which a neighbour may have an old entry: with another MAC or, on a LAN, behind
// another node. The reason: an announcement goes to all ports of the bridge, which takes the kernel
// milliseconds if there are hundreds. Does nothing while the container's end is down. To be called
// after the rules are set: other firewalls may drop what our rules do not accept.
void AnnounceIfNeeded(Container& container,
                      const VethPair& veth,
                      const state::Record& record,
                      const std::vector<Ip>& requested);

// Sets lo up; the kernel then adds its addresses.
void BringUpLoopback(Container& container);

}  // namespace nomad_bridge::link
