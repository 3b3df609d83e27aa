// Published ports as elements of our table's maps. Pure.
//
// Shapes  portmap/rules.h; every field is padded to 4 bytes, ports and addresses are in network byte
//         order.
#pragma once

#include <string>
#include <vector>

#include "netlink/nft/element.h"
#include "portmap/mapping.h"

namespace nomad_bridge::portmap {

// One element per entry, in port4/6, or in hostip4/6 if it has a host address; each with `comment`.
[[nodiscard]] std::vector<nft::Element> Elements(const std::vector<DnatEntry>& entries,
                                                 const std::string& comment);

// "tcp 8080" or "udp 192.0.2.7:53", for messages: the key of `element`. Empty if its set is none of our
// maps.
[[nodiscard]] std::string DescribeKey(const nft::Element& element);

}  // namespace nomad_bridge::portmap
