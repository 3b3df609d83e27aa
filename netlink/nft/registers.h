// Where values lie while a rule runs, and in which byte order the kernel compares them.
//
// Units   A slot is 4 bytes; an IPv4 address takes one, an IPv6 address four, an interface's name four.
// Source  linux/netfilter/nf_tables.h (enum nft_registers).
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include <arpa/inet.h>  // before the kernel's own in.h, which gives way to it
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "base/ip.h"

namespace nomad_bridge::nft {

using Bytes = std::vector<std::uint8_t>;

// A number in the CPU's byte order, as the kernel compares marks, ct bits and route types.
inline Bytes CpuOrder(std::uint32_t number) {
  Bytes bytes(sizeof number);
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

// Registers are 4-byte slots. The kernel names every fourth one by its older, 16-byte name, and so
// do nft and we: what we send must compare equal to what it shows.
constexpr std::uint32_t Register(std::uint32_t slot) {
  constexpr std::uint32_t kSlotsPerOldRegister = 4;
  return slot % kSlotsPerOldRegister == 0 ? NFT_REG_1 + slot / kSlotsPerOldRegister
                                          : NFT_REG32_00 + slot;
}

constexpr std::uint32_t SlotsOf(Family family) {
  return family == Family::kIpv4 ? 1 : 4;
}

constexpr std::uint32_t BytesOf(Family family) {
  return SlotsOf(family) * 4;
}

constexpr std::uint32_t NumberOf(Family family) {
  return family == Family::kIpv4 ? NFPROTO_IPV4 : NFPROTO_IPV6;
}

}  // namespace nomad_bridge::nft
