// The node as a router: it forwards, and takes no router advertisements from allocations.
//
// Shared   Settings of the node and of its bridges: put right, never undone.
// Errors   kKernel.
// Source   ip-sysctl.rst: forwarding, accept_ra.
#pragma once

#include <vector>

#include "base/mismatch.h"
#include "plugin/state/host.h"

namespace nomad_bridge::link {

// Forwarding for the families of `gateways`, which `gateway` has. What the node itself has learnt
// from router advertisements stays, which the kernel drops where it begins to forward.
void CheckForwarding(state::Host& host,
                     const rtnl::Link& gateway,
                     const std::vector<Cidr>& gateways,
                     Mismatches& mismatches);

// accept_ra=0 on `link`, which is `bridge` or a VLAN of it, and no routes by way of it that were
// learnt before; unless the bridge has an uplink, on which the node may live.
void CheckAdvertisements(state::Host& host,
                         const rtnl::Link& bridge,
                         const rtnl::Link& link,
                         Mismatches& mismatches);

}  // namespace nomad_bridge::link
