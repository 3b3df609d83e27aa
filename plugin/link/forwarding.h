// The node as a router: it forwards, and takes no router advertisements from allocations.
//
// Shared   Settings of the node and of its bridges: put right, never undone.
// Errors   kKernel.
// Source   ip-sysctl.rst: forwarding, accept_ra.
#pragma once

#include <string>
#include <vector>

#include "base/mismatch.h"
#include "plugin/state/host.h"

namespace nomad_bridge::link {

// The node's setting for a family, as netlink::EnsureSysctl() names it; rtnl::Socket::ForwardsAll()
// has its value.
[[nodiscard]] const char* ForwardingOf(Family family);

// Of `links`, all of the node, the uplinks between which it routes once it forwards IPv4. Asks for
// the addresses of each.
[[nodiscard]] std::vector<std::string> RoutedUplinks(state::Host& host,
                                                     const std::vector<rtnl::Link>& links);

// Forwarding for the families of `gateways`, which `gateway` has. The node goes on taking router
// advertisements on its uplinks, which the kernel stops where it begins to forward.
void CheckForwarding(state::Host& host,
                     const rtnl::Link& gateway,
                     const std::vector<Cidr>& gateways,
                     Mismatches& mismatches);

// accept_ra=0 on `link`, which is `bridge` or a VLAN of it, and no routes by way of it that were
// learnt before. Not if the bridge has an uplink, on which the node may live, or if somebody else
// made it: its uplink may just be unplugged.
void CheckAdvertisements(state::Host& host,
                         const rtnl::Link& bridge,
                         const rtnl::Link& link,
                         Mismatches& mismatches);

}  // namespace nomad_bridge::link
