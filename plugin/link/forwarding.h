// The node as a router: forwards packets, and accepts no router advertisements from allocations.
//
// Shared   Settings of the node and of its bridges. They are corrected, and never undone.
// Errors   kKernel.
// Source   ip-sysctl.rst: forwarding, accept_ra.
#pragma once

#include <string>
#include <vector>

#include "base/finding.h"
#include "plugin/state/host.h"

namespace nomad_bridge::link {

// Returns the name of the node's forwarding setting for `family`, as netlink::EnsureSysctl() takes
// it. rtnl::Socket::ForwardsAll() reads its value.
[[nodiscard]] const char* ForwardingOf(Family family);

// Returns the finding that `setting`, a sysctl, is 0.
[[nodiscard]] Finding ForwardingOff(const std::string& setting, const std::string& owner = {});

// Returns the uplinks between which the node routes once it forwards IPv4. `links` are all links of
// the node. Reads the addresses of each uplink.
[[nodiscard]] std::vector<std::string> RoutedUplinks(state::Host& host,
                                                     const std::vector<rtnl::Link>& links);

// Checks forwarding for the families of `gateways`, the addresses of `gateway`. When the kernel
// begins to forward IPv6, it stops accepting router advertisements; this function keeps them
// accepted on the node's uplinks.
void CheckForwarding(state::Host& host,
                     const rtnl::Link& gateway,
                     const std::vector<Cidr>& gateways,
                     Findings& findings);

// Checks that accept_ra is 0 on `link`, which is `bridge` or a VLAN of it. A repair also deletes
// the routes that the node has learnt through `link`. Does nothing if the bridge has an uplink,
// because the node may depend on that uplink's router. Does nothing if somebody else created the
// bridge, either: its uplink may only be unplugged.
void CheckAdvertisements(state::Host& host,
                         const rtnl::Link& bridge,
                         const rtnl::Link& link,
                         Findings& findings);

}  // namespace nomad_bridge::link
