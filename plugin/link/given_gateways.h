// Remembers which network gave which address to its gateway. The kernel does not show it, and a
// network keeps the address of its gateway while it has no attachment, beside other networks on the
// bridge.
//
// Shapes  /run/nomad-bridge/.gateways/<network>   its addresses, a line each: "172.26.64.1/20".
//         Written only when an address is added to a link; then files of networks whose addresses
//         are all gone are removed.
// Errors  kIo.
#pragma once

#include <string>
#include <vector>

#include "base/ip.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/state/record.h"

namespace nomad_bridge::link {

// Returns the addresses that `network` gave to links; none if it gave no address, or if they cannot
// be read.
[[nodiscard]] std::vector<Cidr> GatewaysOf(const std::string& network);

// Returns a network other than `except` that gave the address `gateway` to a link; empty if there
// is none.
[[nodiscard]] std::string FindNetworkOf(const Cidr& gateway, const std::string& except);

// Remembers the gateways of `record`, which are addresses of its gateway by now.
void RememberGateways(rtnl::Socket& net, const state::Record& record);

}  // namespace nomad_bridge::link
