// nf_tables' registers while rules are worked out for a packet of which only some is known: every
// bit is 0, 1 or not known. Private to netlink/.
//
// Shapes  Registers are numbered as the kernel does: NFT_REG_1 and following of 16 bytes, over the
//         same room as NFT_REG32_00 and following of 4.
// Source  linux/netfilter/nf_tables.h
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace nomad_bridge::nft {

struct PartialByte {
  std::uint8_t value = 0;  // of bits that are not known: 0
  std::uint8_t known = 0;
};

using PartialBytes = std::vector<PartialByte>;

[[nodiscard]] PartialBytes Known(std::span<const std::uint8_t> bytes);
[[nodiscard]] PartialBytes Unknown(std::size_t size);

enum class Match : std::uint8_t { kNo, kMaybe, kYes };

// Whether `field` begins with `bytes`.
[[nodiscard]] Match Compare(std::span<const PartialByte> field,
                            std::span<const std::uint8_t> bytes);
// -1, 0 or 1 as the field, of which every bit must be known, is less than `bytes`, equal or more.
[[nodiscard]] int Order(std::span<const PartialByte> field, std::span<const std::uint8_t> bytes);
[[nodiscard]] bool IsKnown(std::span<const PartialByte> field);
[[nodiscard]] constexpr Match Not(Match match) {
  return match == Match::kYes ? Match::kNo : match == Match::kNo ? Match::kYes : match;
}

class Registers {
 public:
  // What follows in the same 4 bytes is zero, as the kernel sees to it.
  void Store(std::uint32_t number, const PartialBytes& bytes);
  [[nodiscard]] std::span<const PartialByte> At(std::uint32_t number, std::size_t size) const;

 private:
  static constexpr std::size_t kBytes = 64;

  std::array<PartialByte, kBytes> bytes_{};
};

}  // namespace nomad_bridge::nft
