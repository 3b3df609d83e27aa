// Published ports as elements of our table's maps.
#pragma once

#include <string>
#include <vector>

#include "netlink/nft/element.h"
#include "portmap/mapping.h"

namespace nomad_bridge::portmap {

// One element per mapping, in port4/6, or in hostip4/6 where a host address was asked for.
[[nodiscard]] std::vector<nft::Element> Elements(const std::vector<DnatEntry>& mappings,
                                                 const std::string& comment);

// "tcp 8080" or "udp 192.0.2.7:53", for messages: what a map's key stands for. Empty for any other
// set.
[[nodiscard]] std::string DescribeKey(const nft::Element& element);

}  // namespace nomad_bridge::portmap
