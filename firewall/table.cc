#include "firewall/table.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace nomad_bridge::firewall {
namespace {

using Point = nft::Hook::Point;

// nft's names for them: raw, filter, dstnat, srcnat.
constexpr int kRaw = -300;
constexpr int kFilter = 0;
constexpr int kDstnat = -100;
constexpr int kSrcnat = 100;
constexpr int kLast = 300;  // conntrack's helpers: behind what operators and other programs use

Cidr Multicast(Family family) {
  return family == Family::kIpv4 ? Prefix("224.0.0.0/4") : Prefix("ff00::/8");
}

std::vector<SetRow> Sets() {
  using enum nft::Type;
  return {
      {kBridges, {kIfname}, {}, Role::kAny},
      {kGateways, {kIfname}, {}, Role::kAny},
      {kIngressRestricted, {kIfname}, {}, Role::kForwarding},
      {kIngressAllowed, {kIfname, kIfname}, {}, Role::kForwarding},
      {kAlloc, {kIpv4Addr}, {}, Role::kForwarding},
      {kMasq, {kIpv4Addr}, {}, Role::kMasquerade},
      {kMasqLan, {kIpv4Addr}, {}, Role::kMasquerade},
      {kRandomPorts, {kIpv4Addr}, {}, Role::kMasquerade},
      {kSnat, {kIpv4Addr}, {}, Role::kPorts},
      {kMasqAll, {kIpv4Addr}, {}, Role::kPorts},
      {kClosed, {kIpv4Addr}, {}, Role::kForwarding},
  };
}

// With route_localnet on, the node would route 127.0.0.0/8 from its bridges to itself, and take
// such a source for its own. Not needed for IPv6: the kernel drops ::1 from any link but lo before
// routing.
nft::Chain LocalhostGuard() {
  return {
      .name = "localhost_guard",
      .hook = nft::Hook{.type = "filter", .point = Point::kPrerouting, .priority = kRaw},
      .rules = {
          // iifname @bridges ip daddr 127.0.0.0/8 drop
          nft::Rule().IifnameIn(kBridges).Ipv4().Daddr(Prefix("127.0.0.0/8")).Drop(),
          // iifname @bridges ip saddr 127.0.0.0/8 drop
          // The kernel's own check knows 127.0.0.1 alone, unless rp_filter is on, and none at all
          // with accept_local; and with br_netfilter such a packet would be masqueraded.
          nft::Rule().IifnameIn(kBridges).Ipv4().Saddr(Prefix("127.0.0.0/8")).Drop(),
      }};
}

// A tc filter keeps the same out, should this table be gone. With br_netfilter answers to the
// node's 127.0.0.1 are translated before the bridge hands them over to that filter.
nft::Chain LocalhostAnswers() {
  return {.name = "localhost_answers",
          .hook = nft::Hook{.type = "filter", .point = Point::kPrerouting, .priority = kDstnat + 1},
          .rules = {
              // ip daddr 127.0.0.0/8 iifname @bridges meta mark set 0x6e62616e
              nft::Rule()
                  .Ipv4()
                  .Daddr(Prefix("127.0.0.0/8"))
                  .IifnameIn(kBridges)
                  .SetMark(kLocalhostAnswerMark),
          }};
}

// One step before the chains of iptables: what is accepted here carries the mark, by which the
// static rules accept it there.
nft::Chain Forward(int mark_bit) {
  nft::Chain chain = {
      .name = "forward",
      .hook = nft::Hook{.type = "filter", .point = Point::kForward, .priority = kFilter - 1}};
  const auto accept = [&](nft::Rule rule) {
    chain.rules.push_back(rule.SetMarkBit(mark_bit).Accept());
  };
  const auto drop = [&](nft::Rule rule) { chain.rules.push_back(rule.Drop()); };
  // Every one of these names an allocation's address: what else passes a bridge that is not ours
  // alone, the node's own to its LAN, is none of our business.
  for (const Family family : kFamilies) {
    const std::string alloc = SetName(kAlloc, family);
    // iifname @ingress_restricted oifname @ingress_restricted iifname . oifname != @ingress_allowed
    //   ip saddr @alloc4 ip daddr @alloc4 ct status ! dnat drop
    // First, so that no accept, the operator's included, opens what ingressPolicy closes. Through a
    // published port all are let in, and the answers with them.
    drop(nft::Rule()
             .IifnameIn(kIngressRestricted)
             .OifnameIn(kIngressRestricted)
             .IfnamesNotIn(kIngressAllowed)
             .Only(family)
             .SaddrIn(alloc)
             .DaddrIn(alloc)
             .CtStatusNotDnat());
  }
  for (const Family family : kFamilies) {
    // iifname @bridges ip saddr @masq4 ct state invalid drop
    // It would leave untranslated.
    drop(nft::Rule()
             .IifnameIn(kBridges)
             .Only(family)
             .SaddrIn(SetName(kMasq, family))
             .CtState(nft::kCtInvalid));
  }
  for (const Family family : kFamilies) {
    const std::string alloc = SetName(kAlloc, family);
    // iifname @bridges ip saddr @alloc4 meta mark set meta mark | 0x1000 accept
    // The interface too: a source address from outside may be spoofed.
    accept(nft::Rule().IifnameIn(kBridges).Only(family).SaddrIn(alloc));
    // ip daddr @alloc4 ct state established,related meta mark set meta mark | 0x1000 accept
    accept(nft::Rule().Only(family).DaddrIn(alloc).CtState(nft::kCtEstablished | nft::kCtRelated));
    // ip daddr @alloc4 ct status dnat meta mark set meta mark | 0x1000 accept
    accept(nft::Rule().Only(family).DaddrIn(alloc).CtStatusDnat());
  }
  for (const Family family : kFamilies) {
    const std::string closed = SetName(kClosed, family);
    // iifname != @bridges ip daddr @closed4 drop
    // Answers and published ports were accepted before; what the node itself sends is not
    // forwarded.
    drop(nft::Rule().IifnameNotIn(kBridges).Only(family).DaddrIn(closed));
    // iifname != @gateways oifname @gateways ip daddr @closed4 drop
    // A bridge without a gateway of ours may be the node's own to its LAN: an allocation on it is
    // no reason to let the LAN in to all others.
    drop(nft::Rule().IifnameNotIn(kGateways).OifnameIn(kGateways).Only(family).DaddrIn(closed));
  }
  return chain;
}

// After every filter: what saves packets' marks in postrouting (CONNMARK, for two uplinks) is not
// to save ours.
nft::Chain Unmark(int mark_bit) {
  nft::Chain chain = {
      .name = "unmark",
      .hook = nft::Hook{.type = "filter", .point = Point::kForward, .priority = kLast}};
  for (const Family family : kFamilies) {
    const std::string alloc = SetName(kAlloc, family);
    // iifname @bridges ip saddr @alloc4 meta mark set meta mark & 0xffffefff
    chain.rules.push_back(
        nft::Rule().IifnameIn(kBridges).Only(family).SaddrIn(alloc).ClearMarkBit(mark_bit));
    // ip daddr @alloc4 meta mark set meta mark & 0xffffefff
    chain.rules.push_back(nft::Rule().Only(family).DaddrIn(alloc).ClearMarkBit(mark_bit));
  }
  return chain;
}

nft::Chain Postrouting() {
  nft::Chain chain = {
      .name = kPostrouting,
      .hook = nft::Hook{.type = "nat", .point = Point::kPostrouting, .priority = kSrcnat}};
  for (const Family family : kFamilies) {
    // oifname != @gateways ip saddr @masq4 ip daddr != 224.0.0.0/4 masquerade
    // A bridge without a gateway of ours, such as the node's own to its LAN, is outside.
    // oifname != @bridges ip saddr @masqlan4 ip daddr != 224.0.0.0/4 masquerade
    // Not so for an allocation on such a bridge: with br_netfilter what it sends to its neighbours
    // passes here, too.
    // With the port that the flow has, where that is free: peers of a game, STUN or DTLS know it,
    // and a flow that the kernel has forgotten goes on under the same one.
    for (const auto& [inside, noun] :
         {std::pair(kGateways, kMasq), std::pair(kBridges, kMasqLan)}) {
      const nft::Rule leaving = nft::Rule()
                                    .OifnameNotIn(inside)
                                    .Only(family)
                                    .SaddrIn(SetName(noun, family))
                                    .DaddrNot(Multicast(family));
      // <leaving> ip saddr @randomports4 masquerade fully-random
      chain.rules.push_back(
          nft::Rule(leaving).SaddrIn(SetName(kRandomPorts, family)).MasqueradeFullyRandom());
      chain.rules.push_back(nft::Rule(leaving).Masquerade());
    }
  }
  return chain;
}

std::vector<nft::Chain> Chains(int mark_bit) {
  return {LocalhostGuard(), LocalhostAnswers(), Forward(mark_bit), Unmark(mark_bit), Postrouting()};
}

}  // namespace

const Contributor kForwarding = {nft::TableFamily::kInet, &Sets, &Chains};

nft::TableId TableId(nft::TableFamily family) {
  return {family, "nomad-bridge"};
}

std::string SetName(std::string_view noun, Family family) {
  return Cat(noun, family == Family::kIpv4 ? '4' : '6');
}

nft::Type AddressType(Family family) {
  return family == Family::kIpv4 ? nft::Type::kIpv4Addr : nft::Type::kIpv6Addr;
}

std::vector<std::uint8_t> AddressKey(const Ip& ip) {
  return {ip.bytes().begin(), ip.bytes().end()};
}

std::vector<std::uint8_t> NameKey(const std::string& link) {
  std::vector<std::uint8_t> name(nft::PaddedBytes(nft::Type::kIfname));
  std::copy_n(link.begin(), std::min(link.size(), name.size()), name.begin());
  return name;
}

nft::TableId TableOf(const nft::Element& element) {
  return TableId(element.family);
}

Cidr Prefix(std::string_view text) {
  return Cidr::Parse(text).value();
}

}  // namespace nomad_bridge::firewall
