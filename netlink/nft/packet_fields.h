// What an expression of a rule loads of a packet of which only some is known. Private to netlink/.
//
// Shapes  As the kernel puts it into registers: addresses and ports in network byte order, marks,
//         ct bits and route types in the CPU's.
// Source  linux/netfilter/nf_tables.h
#pragma once

#include <cstring>
#include <optional>

#include "netlink/nft/packet_path.h"
#include "netlink/nft/registers.h"

namespace nomad_bridge::nft {

// The attribute `number` of `expression`; 0, "" or nothing where it has none.
[[nodiscard]] std::uint32_t NumberOf(const Expression& expression, std::uint16_t number);
[[nodiscard]] std::string TextOf(const Expression& expression, std::uint16_t number);
[[nodiscard]] Bytes BytesOf(const Expression& expression, std::uint16_t number);
[[nodiscard]] bool Has(const Expression& expression, std::uint16_t number);

// The struct in an attribute of bytes, such as that of an xt match; what they lack of it is zero.
template <typename Info>
[[nodiscard]] Info InfoOf(const Expression& expression, std::uint16_t number) {
  Bytes bytes = BytesOf(expression, number);
  Info info{};
  bytes.resize(sizeof info);
  std::memcpy(&info, bytes.data(), sizeof info);
  return info;
}
// nullopt: they lack some of it.
template <typename Info>
[[nodiscard]] std::optional<Info> FindInfo(const Expression& expression, std::uint16_t number) {
  const bool is_whole = BytesOf(expression, number).size() >= sizeof(Info);
  return is_whole ? std::optional(InfoOf<Info>(expression, number)) : std::nullopt;
}

// False: the kernel ends the rule there, as for a port of ARP.
[[nodiscard]] bool HasField(const Packet& packet, const Expression& expression);

// Of `expression`, a meta, payload, ct or fib that loads; in a table of `family`.
[[nodiscard]] PartialBytes FieldOf(const Packet& packet,
                                   TableFamily family,
                                   const Expression& expression);

// Whether an xt match is met: tcp, udp, icmp6, multiport, addrtype of destinations, devgroup,
// conntrack's state and comment are known.
[[nodiscard]] Match MatchExtension(const Packet& packet, const Expression& expression);

}  // namespace nomad_bridge::nft
