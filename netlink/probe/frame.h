// The packets that a probe sends, byte by byte.
//
// Shapes  Ports and the token in host byte order. Checksums are right. IPv4 has its don't-fragment
//         bit set, as TCP sets it.
// Token   32 random bits by which a probe's packets are told from all others, through every
//         translation: TCP's sequence number, or what a datagram carries. The answer to a TCP
//         packet acknowledges the number that follows.
// Source  RFC 791, RFC 8200, RFC 9293, RFC 768
#pragma once

#include <cstdint>
#include <vector>

#include "base/ip.h"

namespace nomad_bridge::probe {

struct Flow {
  Ip source;
  Ip destination;             // of the same family
  std::uint8_t protocol = 0;  // IPPROTO_TCP or IPPROTO_UDP
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint32_t token = 0;
};

// The first packet of a TCP connection (SYN), or a datagram: from the IP header on.
[[nodiscard]] std::vector<std::uint8_t> FirstPacket(const Flow& flow);

// Takes a TCP connection back that FirstPacket() has begun, before anybody accepts it: RST, with
// the number that follows.
[[nodiscard]] std::vector<std::uint8_t> ResetPacket(const Flow& flow);

// `packet` as it is on a network: behind an Ethernet header.
[[nodiscard]] std::vector<std::uint8_t> Framed(const Mac& to,
                                               const Mac& from,
                                               const std::vector<std::uint8_t>& packet);

}  // namespace nomad_bridge::probe
