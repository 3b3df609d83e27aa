// A table of nf_tables as a plain value: its sets, maps and chains, without their elements.
//
// Shapes  Names as nft prints them. Priorities are numbers (dstnat -100, srcnat 100, raw -300,
//         filter 0).
// Source  nft(8); linux/netfilter/nf_tables.h. NftType's numbers are nft's datatypes
//         (include/datatype.h), which nft writes into a set so that it can print it again; six bits
//         each in a concatenation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "netlink/nft_element.h"
#include "netlink/nft_rule.h"

namespace nomad_bridge {

// NFPROTO_*
enum class NftFamily : std::uint8_t { kAny = 0, kInet = 1, kIp = 2, kBridge = 7, kIp6 = 10 };

// "inet", "ip", "ip6", "bridge"; empty for kAny.
[[nodiscard]] std::string Text(NftFamily family);

struct NftTableId {
  NftFamily family = NftFamily::kInet;
  std::string name;

  bool operator==(const NftTableId&) const = default;
};

// "inet nomad-bridge".
[[nodiscard]] std::string Text(const NftTableId& table);

enum class NftType : std::uint8_t {
  kIpv4Addr = 7,
  kIpv6Addr = 8,
  kInetProto = 12,
  kInetService = 13,
  kIfname = 41,
};

// Bytes of one field: its own, and as padded to registers inside a key.
[[nodiscard]] std::size_t PaddedBytes(NftType type);

struct NftSet {
  std::string name;
  std::vector<NftType> key;   // more than one: a concatenation
  std::vector<NftType> data;  // empty: a set; else a map
  // NFT_SET_*, but for what says that it is a map: intervals, timeouts, ...
  std::uint32_t flags = 0;

  bool operator==(const NftSet&) const = default;
};

// The key of `element` as nft prints it: "192.0.2.1 . tcp . 8080".
[[nodiscard]] std::string KeyText(const NftSet& set, const NftElement& element);

// Where a base chain hangs.
struct NftHook {
  // NF_INET_*
  enum class Point : std::uint8_t { kPrerouting, kInput, kForward, kOutput, kPostrouting };

  std::string type;  // "filter", "nat"
  Point point = Point::kPrerouting;
  std::int32_t priority = 0;
  bool drops = false;  // the chain's policy, for what no rule decides: accept, unless this is set

  bool operator==(const NftHook&) const = default;
};

struct NftChain {
  std::string name;
  std::optional<NftHook> hook;  // nullopt: a chain to jump to
  std::vector<NftRule> rules;

  bool operator==(const NftChain&) const = default;
};

struct NftTable {
  NftTableId id;
  std::vector<NftSet> sets;
  std::vector<NftChain> chains;

  // nullptr if there is none of that name.
  [[nodiscard]] const NftSet* FindSet(const std::string& name) const;
  // Throws kInternal if there is none: whoever appends rules knows the chains.
  [[nodiscard]] NftChain& Chain(const std::string& name);
};

}  // namespace nomad_bridge
