// The rules that publish ports: DNAT by map, and masquerade where replies would otherwise bypass
// the node; and published ports as elements of those maps. Pure.
//
// Shapes  Every field of a key is padded to 4 bytes; ports and addresses are in network byte order.
// Source  fixtures/nft/nomad-bridge.nft is the table in nft's syntax.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "firewall/contributor.h"
#include "netlink/nft/element.h"
#include "portmap/mapping.h"

namespace nomad_bridge::portmap {

// The maps, without the digit of their family.
constexpr std::string_view kPort = "port";      // protocol . port -> address . port
constexpr std::string_view kHostIp = "hostip";  // address . protocol . port -> address . port

// The maps, the chains that look them up, and masquerading in postrouting.
extern const firewall::Contributor kPublishedPorts;

// One element per entry, in port4/6, or in hostip4/6 if it has a host address; each with `comment`.
[[nodiscard]] std::vector<nft::Element> Elements(const std::vector<DnatEntry>& entries,
                                                 const std::string& comment);

// The element that publishes the port of `element` on `place` (an address of the node; nullopt: on
// all of them), as far as its set and key go, if the two overlap: one is on all addresses, the
// other on one of them. nullopt if they do not, or `element` is no port's.
[[nodiscard]] std::optional<nft::Element> OverlappingAt(const nft::Element& element,
                                                        const std::optional<Ip>& place);

// "tcp 8080" or "udp 192.0.2.7:53", for messages: the key of `element`. Empty if its set is none of
// our maps.
[[nodiscard]] std::string DescribeKey(const nft::Element& element);

}  // namespace nomad_bridge::portmap
