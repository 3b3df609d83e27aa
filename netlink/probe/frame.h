// Builds the packets that a probe sends.
//
// Shapes  Ports and the token in host byte order. Checksums are right. IPv4 has its don't-fragment
//         bit set, as TCP sets it.
// Token   32 random bits that identify a probe's packets, even after translation: TCP's sequence
//         number, or the payload of a UDP datagram. The answer to the TCP packet acknowledges the
//         next number.
// Source  RFC 791, RFC 8200, RFC 9293, RFC 768; RFC 826, RFC 4861, RFC 4862, RFC 5227
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

// Returns the first packet of a TCP connection (SYN) or a UDP datagram, from the IP header on.
[[nodiscard]] std::vector<std::uint8_t> FirstPacket(const Flow& flow);

// Returns the RST that ends the TCP connection begun by FirstPacket() before a service accepts it.
// Its sequence number is the token plus one.
[[nodiscard]] std::vector<std::uint8_t> ResetPacket(const Flow& flow);

// Returns `packet` with an Ethernet header in front.
[[nodiscard]] std::vector<std::uint8_t> Framed(const Mac& to,
                                               const Mac& from,
                                               const std::vector<std::uint8_t>& packet);

// Returns the frame by which `from` asks all machines of its segment who has `address`, without an
// address of its own: an ARP probe (RFC 5227), or the solicitation of duplicate address detection.
[[nodiscard]] std::vector<std::uint8_t> HolderQuery(const Mac& from, const Ip& address);

}  // namespace nomad_bridge::probe
