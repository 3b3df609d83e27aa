// Publishes ports: DNAT by map, masquerade where replies would otherwise bypass the node, and
// published ports as elements of these maps. Pure.
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

// Names of the maps, without the digit of their family.
constexpr std::string_view kPort = "port";      // protocol . port -> address . port
constexpr std::string_view kHostIp = "hostip";  // address . protocol . port -> address . port

// The maps, the chains that look them up, and masquerading in postrouting.
extern const firewall::Contributor kPublishedPorts;

// Returns one element per entry, in port4/6, or in hostip4/6 if it has a host address; each with
// `comment`.
[[nodiscard]] std::vector<nft::Element> Elements(const std::vector<DnatEntry>& entries,
                                                 const std::string& comment);

// If `element` publishes a port on one address, returns, with set and key alone, the element that
// would publish the same port on all addresses. Otherwise returns nullopt.
[[nodiscard]] std::optional<nft::Element> OnAllAddresses(const nft::Element& element);
// If `element` publishes a port on all addresses, returns the set of ports on one address.
// Otherwise returns nullopt.
[[nodiscard]] std::optional<std::string> FindSetOfOneAddress(const nft::Element& element);

// Returns the published port that `element` is; nullopt if its set is none of our maps.
[[nodiscard]] std::optional<DnatEntry> FindEntry(const nft::Element& element);

// Returns the key of `element` for messages, "tcp 8080" or "udp 192.0.2.7:53"; empty if its set is
// none of our maps.
[[nodiscard]] std::string DescribeKey(const nft::Element& element);

}  // namespace nomad_bridge::portmap
