// One nf_tables rule as a plain value, built from words that read as nft does.
//
// Shapes  A rule is a list of expressions; an expression is its kind ("payload", "lookup", ...) and
//         the attributes the kernel gets, numbered as libnftnl numbers them. Numbers are host byte
//         order; bytes are what is on the wire (addresses, ports) or in the CPU's order (marks, ct
//         bits), as the kernel compares them.
// Words   Matches first, one verdict or NAT statement last; the kernel reads left to right.
//           NftRule().IifnameIn("bridges").CtState(kCtInvalid).Drop()
//           iifname @bridges ct state invalid drop
// Family  Words about addresses need Ipv4() or Ipv6() before them: that is nft's own `meta nfproto`
//         dependency.
// Source  nft(8); linux/netfilter/nf_tables.h; the words emit what nft 1.0.6 emits (nft
//         --debug=netlink).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/ip.h"

namespace nomad_bridge {

using NftValue = std::variant<std::uint32_t, std::string, std::vector<std::uint8_t>>;

struct NftExpression {
  std::string kind;
  std::vector<std::pair<std::uint16_t, NftValue>> attributes;

  bool operator==(const NftExpression&) const = default;
};

// Bits of `ct state`, for CtState(). linux/netfilter/nf_conntrack_common.h.
constexpr std::uint32_t kCtInvalid = 1;
constexpr std::uint32_t kCtEstablished = 2;
constexpr std::uint32_t kCtRelated = 4;

class NftRule {
 public:
  // iifname @set, oifname @set, oifname != @set
  NftRule& IifnameIn(const std::string& set);
  NftRule& OifnameIn(const std::string& set);
  NftRule& OifnameNotIn(const std::string& set);
  // iifname . oifname != @set
  NftRule& IfnamesNotIn(const std::string& set);

  // meta nfproto ipv4, meta nfproto ipv6; the words below are then about that family.
  NftRule& Ipv4();
  NftRule& Ipv6();
  NftRule& Only(Family family);

  // ip saddr @set, ip daddr @set (ip6 likewise)
  NftRule& SaddrIn(const std::string& set);
  NftRule& DaddrIn(const std::string& set);
  // ip saddr 127.0.0.0/8, ip daddr ..., ip daddr != ...
  NftRule& Saddr(const Cidr& prefix);
  NftRule& Daddr(const Cidr& prefix);
  NftRule& DaddrNot(const Cidr& prefix);
  // fib daddr type local
  NftRule& DaddrIsLocal();

  // ct state <any of these bits>
  NftRule& CtState(std::uint32_t bits);
  // ct status dnat
  NftRule& CtStatusDnat();

  // meta mark set meta mark | (1 << bit)
  NftRule& SetMarkBit(int bit);
  // meta mark & (1 << bit) == (1 << bit)
  NftRule& MarkBitIsSet(int bit);

  // dnat ip to meta l4proto . th dport map @map
  NftRule& DnatByPort(const std::string& map);
  // dnat ip to ip daddr . meta l4proto . th dport map @map
  NftRule& DnatByAddressAndPort(const std::string& map);
  // masquerade
  NftRule& Masquerade();

  NftRule& Counter();
  NftRule& Accept();
  NftRule& Drop();
  NftRule& Jump(const std::string& chain);
  NftRule& Goto(const std::string& chain);
  // comment "text": at most 128 bytes, kept as the rule's user data, where nft and iptables-nft
  // read it.
  NftRule& Comment(const std::string& text);

  [[nodiscard]] const std::vector<NftExpression>& expressions() const { return expressions_; }
  [[nodiscard]] const std::string& comment() const { return comment_; }

  bool operator==(const NftRule&) const = default;

 private:
  NftRule& Add(NftExpression expression);
  NftRule& LookUp(const std::string& set, bool inverted = false);
  NftRule& CompareEqual(std::vector<std::uint8_t> bytes);
  NftRule& Compare(bool equal, std::vector<std::uint8_t> bytes);
  NftRule& Mask(std::vector<std::uint8_t> mask, std::vector<std::uint8_t> flip);
  NftRule& LoadMeta(std::uint32_t key, std::uint32_t slot = 0);
  NftRule& LoadAddress(bool source, std::size_t bytes);
  NftRule& LoadPort(std::uint32_t slot);
  NftRule& MatchPrefix(bool source, bool equal, const Cidr& prefix);
  NftRule& AnyBit(std::uint32_t bits);
  NftRule& Dnat(const std::string& map);
  NftRule& Verdict(std::uint32_t verdict, const std::string& chain = {});

  std::vector<NftExpression> expressions_;
  std::string comment_;
  Family family_ = Family::kIpv4;
};

}  // namespace nomad_bridge
