// What xt's targets that translate addresses translate to. Private to netlink/.
//
// Source  linux/netfilter/nf_nat.h: each family has its own struct.
#pragma once

#include <cstdint>
#include <optional>

#include "netlink/nft/packet_path.h"

namespace nomad_bridge::nft {

[[nodiscard]] constexpr std::uint16_t PortIn(std::uint8_t high, std::uint8_t low) {
  return static_cast<std::uint16_t>(high << 8 | low);
}

// Of REDIRECT: the one that the packet came for, unless another one is named.
[[nodiscard]] std::optional<std::uint16_t> PortOfRedirect(const Packet& packet,
                                                          const Expression& target);
// Of SNAT: nullopt if there are several.
[[nodiscard]] std::optional<Ip> SourceOfSnat(const Packet& packet, const Expression& target);

}  // namespace nomad_bridge::nft
