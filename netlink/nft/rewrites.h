// What rules change of a packet besides its marks: its hops (IPv4's TTL, IPv6's hop limit), its
// conntrack zone, and its addresses, as far as xt's targets translate them. Private to netlink/.
//
// Source  linux/netfilter_ipv4/ipt_TTL.h; linux/netfilter_ipv6/ip6t_HL.h, which is the same;
//         linux/netfilter/xt_CT.h, nft_ct.c; linux/netfilter/nf_nat.h: each family has its own
//         struct.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <netinet/in.h>  // before linux/in.h, which then leaves out the same

#include "netlink/nft/packet_path.h"
#include "netlink/nft/registers.h"

namespace nomad_bridge::nft {

// Where among the bytes that `payload` writes the hops are; nullopt: it writes something else.
[[nodiscard]] std::optional<std::size_t> FindHops(const Packet& packet, const Expression& payload);
// REQUIRES: `target` is xt's TTL or HL. nullopt: it adds some, or takes some away
[[nodiscard]] std::optional<std::uint8_t> HopsOfTarget(const Expression& target);

// What is answered is looked for in this zone; nullopt: not known. `set`: an expression that sets
// the zone, `value` what it sets.
[[nodiscard]] std::optional<std::uint16_t> AnswersZone(const Expression& set,
                                                       std::span<const PartialByte> value);
// REQUIRES: `target` is xt's CT, which does not say notrack
[[nodiscard]] std::optional<std::uint16_t> AnswersZoneOfTarget(const Expression& target);
// xt's CT or NOTRACK
[[nodiscard]] bool IsNotrack(const Expression& target);

[[nodiscard]] constexpr std::uint16_t PortIn(std::uint8_t high, std::uint8_t low) {
  return static_cast<std::uint16_t>(high << 8 | low);
}
// Of REDIRECT: the one that the packet came for, unless another one is named.
[[nodiscard]] std::optional<std::uint16_t> PortOfRedirect(const Packet& packet,
                                                          const Expression& target);
// Of SNAT: nullopt if there are several.
[[nodiscard]] std::optional<Ip> SourceOfSnat(const Packet& packet, const Expression& target);

}  // namespace nomad_bridge::nft
