// Marks of packets and of connections, of which only some bits are known, as xt's extensions set
// and ask for them. Private to netlink/.
//
// Source  linux/netfilter/xt_mark.h, xt_connmark.h
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "netlink/nft/packet_path.h"
#include "netlink/nft/registers.h"

namespace nomad_bridge::nft {

// What is not set is nullopt.
struct Marks {
  std::optional<KnownBits> packet;
  std::optional<KnownBits> connection;
};

// Of what a register holds.
[[nodiscard]] KnownBits BitsIn(std::span<const PartialByte> bytes);

// What both know alike.
[[nodiscard]] KnownBits Shared(const KnownBits& one, const KnownBits& other);

// REQUIRES: `name` is MARK or CONNMARK
[[nodiscard]] Marks MarksOfTarget(const Packet& packet,
                                  std::string_view name,
                                  const Expression& target);

// Whether `match` is met, one that asks for a mark; nullopt: it asks for something else.
[[nodiscard]] std::optional<Match> MatchMark(const Packet& packet, const Expression& match);

}  // namespace nomad_bridge::nft
