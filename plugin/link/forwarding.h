// The node as a router: it forwards, and takes no router advertisements from allocations.
//
// Shared   Settings of the node and of its bridges: put right, never undone.
// Repairs  are completed by "repaired ...": "net/ipv4/ip_forward, which was 0".
// Errors   kKernel.
// Source   ip-sysctl.rst: forwarding, accept_ra.
#pragma once

#include <string>
#include <vector>

#include "plugin/state/host.h"

namespace nomad_bridge::link {

// Forwarding for the families of `gateways`, which `gateway` has. What the node itself has learnt from
// router advertisements stays, which the kernel drops where it begins to forward.
[[nodiscard]] std::vector<std::string> EnsureForwarding(state::Host& host,
                                                        const rtnl::Link& gateway,
                                                        const std::vector<Cidr>& gateways);

// What differs, one line each: "net/ipv4/ip_forward is 0".
[[nodiscard]] std::vector<std::string> DiffForwarding(const std::string& gateway_ifname,
                                                      const std::vector<Cidr>& gateways);

// accept_ra=0 on `link`, which is `bridge` or a VLAN of it, and no routes by way of it that were learnt
// before; unless the bridge has an uplink, on which the node may live.
[[nodiscard]] std::vector<std::string> EnsureNoAdvertisements(state::Host& host,
                                                              const rtnl::Link& bridge,
                                                              const rtnl::Link& link);
[[nodiscard]] std::vector<std::string> DiffAdvertisements(state::Host& host,
                                                          const rtnl::Link& bridge,
                                                          const std::string& ifname);

}  // namespace nomad_bridge::link
