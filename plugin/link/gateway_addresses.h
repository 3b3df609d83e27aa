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

enum class BridgeMaker { kWe, kSomebodyElse };

// `gateways`; with IPv6 on a bridge that we created also the link-local address, which the kernel
// itself would add late.
[[nodiscard]] std::vector<Cidr> AddressesFor(const rtnl::Link& gateway,
                                             BridgeMaker maker,
                                             const std::vector<Cidr>& gateways);

// Makes `gateways` addresses of `gateway`. Other IPv4 addresses and overlapping IPv6 ones are an
// error, or removed with forceAddress; those that a live attachment but `except` needs stay. Returns
// what such an attachment lacked until now: "address 10.0.0.1/24 of bridge 'nomad'".
[[nodiscard]] std::vector<std::string> EnsureGateways(state::Host& host,
                                                      const rtnl::Link& gateway,
                                                      const config::LinkConfig& config,
                                                      const std::vector<Cidr>& gateways,
                                                      const AttachmentId& except);

}  // namespace nomad_bridge::link
