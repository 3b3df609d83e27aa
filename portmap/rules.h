// The rules that publish ports: DNAT by map, and masquerade where replies would otherwise bypass the
// node. Pure.
//
// Source  fixtures/nft/nomad-bridge.nft is the table in nft's syntax.
#pragma once

#include <string_view>

#include "netlink/nft/table.h"

namespace nomad_bridge::portmap {

// The maps, without the digit of their family.
constexpr std::string_view kPort = "port";      // protocol . port -> address . port
constexpr std::string_view kHostIp = "hostip";  // address . protocol . port -> address . port

// Adds the maps, the chain hostports, and the rules in prerouting, output and postrouting to our
// table.
void Describe(nft::Table& table);

}  // namespace nomad_bridge::portmap
