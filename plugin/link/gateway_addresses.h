// The addresses with which the node answers on a network's gateway interface.
//
// Shared   by every attachment behind that interface: added or repaired, never undone.
// Errors   kConflict if an address is in the way and forceAddress is not set; kKernel.
#pragma once

#include <string>
#include <vector>

#include "netlink/rtnl/rtnl.h"
#include "plugin/config/config.h"
#include "plugin/state/host.h"

namespace nomad_bridge::link {

[[nodiscard]] bool HasFamily(const std::vector<Cidr>& cidrs, Family family);

// `gateways`, and with IPv6 the link-local address too, which the kernel would make late;
// `is_ours`: we created the bridge.
[[nodiscard]] std::vector<Cidr> AddressesFor(const rtnl::Link& gateway,
                                             bool is_ours,
                                             const std::vector<Cidr>& gateways);

// Makes `gateways` addresses of `gateway`. Other IPv4 addresses and overlapping IPv6 ones are an
// error, or removed with forceAddress; those that another live attachment needs stay. Returns what
// had been there before and was repaired, one phrase each.
[[nodiscard]] std::vector<std::string> EnsureGateways(state::Host& host,
                                                      const rtnl::Link& gateway,
                                                      const config::LinkConfig& config,
                                                      const std::vector<Cidr>& gateways,
                                                      const AttachmentId& except);

}  // namespace nomad_bridge::link
