#include "netlink/nft/registers.h"

#include <algorithm>

#include <linux/netfilter/nf_tables.h>

namespace nomad_bridge::nft {
namespace {

constexpr std::size_t kSlot = 4;
constexpr std::uint8_t kAllBits = 0xff;

std::size_t OffsetOf(std::uint32_t number) {
  constexpr std::size_t kWide = 16;
  return number >= NFT_REG32_00 ? (number - NFT_REG32_00) * kSlot
                                : (number - std::uint32_t{NFT_REG_1}) * kWide;
}

}  // namespace

PartialBytes Known(std::span<const std::uint8_t> bytes) {
  PartialBytes known;
  for (const std::uint8_t byte : bytes) {
    known.push_back({.value = byte, .known = kAllBits});
  }
  return known;
}

PartialBytes Unknown(std::size_t size) {
  return PartialBytes(size);
}

bool IsKnown(std::span<const PartialByte> field) {
  return std::ranges::all_of(field, [](const PartialByte& each) { return each.known == kAllBits; });
}

Match Compare(std::span<const PartialByte> field, std::span<const std::uint8_t> bytes) {
  Match match = Match::kYes;
  for (std::size_t i = 0; i < std::min(field.size(), bytes.size()); ++i) {
    if (((field[i].value ^ bytes[i]) & field[i].known) != 0) {
      return Match::kNo;
    }
    if (field[i].known != kAllBits) {
      match = Match::kMaybe;
    }
  }
  return match;
}

int Order(std::span<const PartialByte> field, std::span<const std::uint8_t> bytes) {
  for (std::size_t i = 0; i < std::min(field.size(), bytes.size()); ++i) {
    if (field[i].value != bytes[i]) {
      return field[i].value < bytes[i] ? -1 : 1;
    }
  }
  return 0;
}

void Registers::Store(std::uint32_t number, const PartialBytes& bytes) {
  std::size_t at = OffsetOf(number);
  for (const PartialByte& byte : bytes) {
    if (at < kBytes) {
      bytes_.at(at++) = byte;
    }
  }
  for (; at % kSlot != 0; ++at) {
    bytes_.at(at) = {.value = 0, .known = kAllBits};
  }
}

std::span<const PartialByte> Registers::At(std::uint32_t number, std::size_t size) const {
  const std::size_t at = std::min(OffsetOf(number), kBytes);
  return std::span(bytes_).subspan(at, std::min(size, kBytes - at));
}

}  // namespace nomad_bridge::nft
