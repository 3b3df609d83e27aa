#include "firewall/table.h"

#include "base/text.h"

namespace nomad_bridge::firewall {
namespace {

using Point = NftHook::Point;

// nft's names for them: raw, filter, srcnat.
constexpr int kRaw = -300;
constexpr int kFilter = 0;
constexpr int kSrcnat = 100;

Cidr Multicast(Family family) {
  return family == Family::kIpv4 ? Prefix("224.0.0.0/4") : Prefix("ff00::/8");
}

std::vector<NftSet> Sets() {
  std::vector<NftSet> sets = {
      {.name = kBridges, .key = {NftType::kIfname}, .data = {}},
      {.name = kGuarded, .key = {NftType::kIfname}, .data = {}},
      {.name = kWithin, .key = {NftType::kIfname, NftType::kIfname}, .data = {}},
  };
  for (const std::string_view noun : {kAlloc, kMasq, kSnat, kMasqAll}) {
    for (const Family family : kFamilies) {
      sets.push_back({.name = SetName(noun, family), .key = {AddressType(family)}, .data = {}});
    }
  }
  return sets;
}

// With route_localnet on, the node would route 127.0.0.0/8 in from its bridges. IPv6 needs no twin:
// the kernel drops ::1 from any link but lo before it routes.
NftChain Guard() {
  return {.name = "guard",
          .hook = NftHook{.type = "filter", .point = Point::kPrerouting, .priority = kRaw},
          .rules = {
              // iifname @bridges ip daddr 127.0.0.0/8 drop
              NftRule().IifnameIn(kBridges).Ipv4().Daddr(Prefix("127.0.0.0/8")).Drop(),
          }};
}

// One step before the chains of iptables: what is accepted here carries the mark, which they then
// accept too.
NftChain Forward(int mark_bit) {
  NftChain chain = {
      .name = "forward",
      .hook = NftHook{.type = "filter", .point = Point::kForward, .priority = kFilter - 1},
      .rules = {}};
  // iifname @guarded oifname @guarded iifname . oifname != @within drop
  // First: the operator's chain, too, opens nothing between networks that keep to themselves.
  chain.rules.push_back(
      NftRule().IifnameIn(kGuarded).OifnameIn(kGuarded).IfnamesNotIn(kWithin).Drop());
  // iifname @bridges ct state invalid drop
  chain.rules.push_back(NftRule().IifnameIn(kBridges).CtState(kCtInvalid).Drop());
  for (const Family family : kFamilies) {
    // iifname @bridges ip saddr @alloc4 meta mark set meta mark | 0x1000 accept
    // The interface too: a spoofed source from outside is not ours.
    chain.rules.push_back(NftRule()
                              .IifnameIn(kBridges)
                              .Only(family)
                              .SaddrIn(SetName(kAlloc, family))
                              .SetMarkBit(mark_bit)
                              .Accept());
  }
  // oifname @bridges ct state established,related meta mark set meta mark | 0x1000 accept
  chain.rules.push_back(NftRule()
                            .OifnameIn(kBridges)
                            .CtState(kCtEstablished | kCtRelated)
                            .SetMarkBit(mark_bit)
                            .Accept());
  // oifname @bridges ct status dnat meta mark set meta mark | 0x1000 accept
  chain.rules.push_back(NftRule().OifnameIn(kBridges).CtStatusDnat().SetMarkBit(mark_bit).Accept());
  return chain;
}

NftChain Postrouting() {
  NftChain chain = {
      .name = kPostrouting,
      .hook = NftHook{.type = "nat", .point = Point::kPostrouting, .priority = kSrcnat},
      .rules = {}};
  for (const Family family : kFamilies) {
    // oifname != @bridges ip saddr @masq4 ip daddr != 224.0.0.0/4 masquerade
    chain.rules.push_back(NftRule()
                              .OifnameNotIn(kBridges)
                              .Only(family)
                              .SaddrIn(SetName(kMasq, family))
                              .DaddrNot(Multicast(family))
                              .Masquerade());
  }
  return chain;
}

}  // namespace

NftTableId TableId() {
  return {NftFamily::kInet, "nomad-bridge"};
}

std::string SetName(std::string_view noun, Family family) {
  return Cat(noun, family == Family::kIpv4 ? '4' : '6');
}

NftType AddressType(Family family) {
  return family == Family::kIpv4 ? NftType::kIpv4Addr : NftType::kIpv6Addr;
}

std::vector<std::uint8_t> AddressKey(const Ip& ip) {
  return {ip.bytes().begin(), ip.bytes().end()};
}

Cidr Prefix(std::string_view text) {
  return Cidr::Parse(text).value();
}

NftTable Describe(int accept_mark_bit) {
  return {.id = TableId(),
          .sets = Sets(),
          .chains = {Guard(), Forward(accept_mark_bit), Postrouting()}};
}

}  // namespace nomad_bridge::firewall
