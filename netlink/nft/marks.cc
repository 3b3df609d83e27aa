#include "netlink/nft/marks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/xt_connmark.h>
#include <linux/netfilter/xt_mark.h>

#include "netlink/core/handles.h"
#include "netlink/nft/packet_fields.h"

namespace nomad_bridge::nft {
namespace {

constexpr std::uint32_t kAllBits = 0xffffffff;

KnownBits Whole(std::uint32_t value) {
  return {.value = value, .known = kAllBits};
}

// The other bits are zero.
KnownBits Only(const KnownBits& bits, std::uint32_t mask) {
  return {.value = bits.value & mask, .known = bits.known | ~mask};
}

KnownBits Flipped(const KnownBits& bits, const KnownBits& by) {
  const std::uint32_t known = bits.known & by.known;
  return {.value = (bits.value ^ by.value) & known, .known = known};
}

// The first revision's struct is the beginning of the second one's, but for the mode.
Marks MarksOfConnmark(const Packet& packet, const Expression& target) {
  auto info = InfoOf<xt_connmark_tginfo2>(target, NFTNL_EXPR_TG_INFO);
  if (NumberOf(target, NFTNL_EXPR_TG_REV) < 2) {
    info.mode = InfoOf<xt_connmark_tginfo1>(target, NFTNL_EXPR_TG_INFO).mode;
    info.shift_bits = 0;
  }
  const bool is_restored = info.mode == XT_CONNMARK_RESTORE;
  if (info.shift_bits != 0) {
    return is_restored ? Marks{.packet = KnownBits()} : Marks{.connection = KnownBits()};
  }
  if (is_restored) {
    return {.packet = Flipped(Only(packet.mark, ~info.nfmask), Only(packet.ct_mark, info.ctmask))};
  }
  const KnownBits kept = Only(packet.ct_mark, ~info.ctmask);
  return {.connection = Flipped(
              kept,
              info.mode == XT_CONNMARK_SAVE ? Only(packet.mark, info.nfmask) : Whole(info.ctmark))};
}

}  // namespace

KnownBits BitsIn(std::span<const PartialByte> bytes) {
  KnownBits bits;
  std::array<std::uint8_t, sizeof bits.value> value{};
  std::array<std::uint8_t, sizeof bits.known> known{};
  for (std::size_t i = 0; i < std::min(bytes.size(), value.size()); ++i) {
    value.at(i) = bytes[i].value;
    known.at(i) = bytes[i].known;
  }
  std::memcpy(&bits.value, value.data(), value.size());
  std::memcpy(&bits.known, known.data(), known.size());
  return bits;
}

KnownBits Shared(const KnownBits& one, const KnownBits& other) {
  const std::uint32_t known = one.known & other.known & ~(one.value ^ other.value);
  return {.value = one.value & known, .known = known};
}

Marks MarksOfTarget(const Packet& packet, std::string_view name, const Expression& target) {
  if (name == "CONNMARK") {
    return MarksOfConnmark(packet, target);
  }
  const auto info = InfoOf<xt_mark_tginfo2>(target, NFTNL_EXPR_TG_INFO);
  return {.packet = Flipped(Only(packet.mark, ~info.mask), Whole(info.mark))};
}

std::optional<Match> MatchMark(const Packet& packet, const Expression& match) {
  const std::string name = TextOf(match, NFTNL_EXPR_MT_NAME);
  if ((name != "mark" && name != "connmark") || NumberOf(match, NFTNL_EXPR_MT_REV) != 1) {
    return std::nullopt;
  }
  static_assert(sizeof(xt_mark_mtinfo1) == sizeof(xt_connmark_mtinfo1));
  const auto info = InfoOf<xt_mark_mtinfo1>(match, NFTNL_EXPR_MT_INFO);
  const KnownBits asked = Only(name == "mark" ? packet.mark : packet.ct_mark, info.mask);
  const Match found = ((asked.value ^ info.mark) & asked.known) != 0 ? Match::kNo
                      : asked.known == kAllBits                      ? Match::kYes
                                                                     : Match::kMaybe;
  return info.invert != 0 ? Not(found) : found;
}

}  // namespace nomad_bridge::nft
