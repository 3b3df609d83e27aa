// The rules that publish ports: DNAT by map, and masquerade where the way back would otherwise miss
// the node.
#pragma once

#include "netlink/nft/table.h"

namespace nomad_bridge::portmap {

// Adds the maps, the chain hostports, and the rules in prerouting, output and postrouting to our
// table.
void Describe(nft::Table& table);

}  // namespace nomad_bridge::portmap
