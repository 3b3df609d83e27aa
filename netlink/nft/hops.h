// How many hops a packet has left, as rules set it: IPv4's TTL, IPv6's hop limit. Private to
// netlink/.
//
// Source  linux/netfilter_ipv4/ipt_TTL.h; linux/netfilter_ipv6/ip6t_HL.h, which is the same
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "netlink/nft/packet_path.h"

namespace nomad_bridge::nft {

// Where among the bytes that `payload` writes they are; nullopt: it writes something else.
[[nodiscard]] std::optional<std::size_t> FindHops(const Packet& packet, const Expression& payload);

// REQUIRES: `target` is xt's TTL or HL. nullopt: it adds some, or takes some away
[[nodiscard]] std::optional<std::uint8_t> HopsOfTarget(const Expression& target);

}  // namespace nomad_bridge::nft
