#include "firewall/table.h"

#include <algorithm>
#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "firewall/drops.h"

namespace nomad_bridge::firewall {
namespace {

using Point = nft::Hook::Point;

// Set of ifname: the bridges whose network is not open.
constexpr const char* kIngressRestricted = "ingress_restricted";
// Set of ifname . ifname: pairs of interfaces that may exchange packets despite an ingressPolicy.
constexpr const char* kIngressAllowed = "ingress_allowed";
// Sets of addresses, as in table.h. kRandomPorts is a subset of kMasq and kMasqLan.
constexpr std::string_view kMasqLan = "masqlan";  // as kMasq, but without a gateway of ours
constexpr std::string_view kNoMasq = "nomasq";    // with a prefix: packets to it keep their source
constexpr std::string_view kRandomPorts = "randomports";
constexpr std::string_view kClosed = "closed";  // closed to the outside, except for published ports

constexpr int kRaw = -300;      // nft's name for it is raw
constexpr int kAfterNat = -99;  // one step after the kernel has asked all chains of type nat
constexpr int kLast = 300;      // conntrack's helpers: after all priorities that others use

constexpr const char* kBetweenNetworks = "between_networks";
constexpr DroppingChain kDropBetween = {"drop_between", kIngressPolicy};
constexpr DroppingChain kDropInbound = {"drop_inbound", kInboundKey};
constexpr const char* kFromAllocations = "from_allocations";
constexpr const char* kLeaving = "leaving";

Cidr Multicast(Family family) {
  return family == Family::kIpv4 ? Prefix("224.0.0.0/4") : Prefix("ff00::/8");
}

std::vector<SetRow> Sets() {
  using enum nft::Type;
  std::vector<SetRow> rows = {
      {kAbout, {kMark}, {}, Role::kNone},
      {kBridges, {kIfname}, {}, Role::kAny},
      {kGateways, {kIfname}, {}, Role::kAny},
      {kIngressRestricted, {kIfname}, {}, Role::kForwarding},
      {kIngressAllowed, {kIfname, kIfname}, {}, Role::kForwarding},
      {kAlloc, {kIpv4Addr}, {}, Role::kForwarding},
      {kMasq, {kIpv4Addr}, {}, Role::kMasquerade},
      {kMasqLan, {kIpv4Addr}, {}, Role::kMasquerade},
      {kNoMasq, {kIpv4Addr, kIpv4Addr}, {}, Role::kMasquerade, nft::kInterval},
      {kRandomPorts, {kIpv4Addr}, {}, Role::kMasquerade},
      {kSnat, {kIpv4Addr}, {}, Role::kPorts},
      {kMasqAll, {kIpv4Addr}, {}, Role::kPorts},
      {kClosed, {kIpv4Addr}, {}, Role::kForwarding},
  };
  Append(rows, DropSets(nft::TableFamily::kInet));
  return rows;
}

// With route_localnet on, the node would route packets from its bridges to its own 127.0.0.0/8, and
// accept such a source as its own. IPv6 does not need this: the kernel drops ::1 from any link but
// lo before routing.
nft::Chain LocalhostGuard() {
  return {
      .name = "localhost_guard",
      .hook = nft::Hook{.type = "filter", .point = Point::kPrerouting, .priority = kRaw},
      .rules = {
          // ip daddr 127.0.0.0/8 iifname @bridges drop
          nft::Rule().Ipv4().Daddr(Prefix("127.0.0.0/8")).IifnameIn(kBridges).Drop(),
          // ip saddr 127.0.0.0/8 iifname @bridges drop
          // The kernel's own check covers only 127.0.0.1 if rp_filter is off, and no address at all
          // with accept_local. With br_netfilter such a packet would also be masqueraded.
          nft::Rule().Ipv4().Saddr(Prefix("127.0.0.0/8")).IifnameIn(kBridges).Drop(),
      }};
}

// Marks translated packets for filters that see only the result. With br_netfilter, packets are
// translated before the bridge hands them on.
nft::Chain Translated(int mark_bit) {
  nft::Chain chain = {
      .name = kTranslated,
      .hook = nft::Hook{.type = "filter", .point = Point::kPrerouting, .priority = kAfterNat}};
  // ip daddr 127.0.0.0/8 iifname @bridges meta mark set 0x6e62616e
  // Answers to the node's 127.0.0.1: if this table is gone, a tc filter drops other packets to such
  // an address.
  chain.rules.push_back(nft::Rule()
                            .Ipv4()
                            .Daddr(Prefix("127.0.0.0/8"))
                            .IifnameIn(kBridges)
                            .SetMark(kLocalhostAnswerMark));
  for (const Family family : kFamilies) {
    // iifname @ingress_restricted ct status dnat ip saddr @alloc4 ip daddr @alloc4
    //   meta mark set meta mark | 0x1000
    // Published ports of neighbours, and their answers: table bridge lets them pass between two
    // isolated ports.
    chain.rules.push_back(nft::Rule()
                              .IifnameIn(kIngressRestricted)
                              .CtStatusDnat()
                              .Only(family)
                              .SaddrIn(SetName(kAlloc, family))
                              .DaddrIn(SetName(kAlloc, family))
                              .SetMarkBit(mark_bit));
  }
  return chain;
}

// Judges packets between two networks if one is closed to the other (ingressPolicy). Everybody may
// use published ports, and their answers pass.
nft::Chain BetweenNetworks() {
  nft::Chain chain = {.name = kBetweenNetworks};
  for (const Family family : kFamilies) {
    // ip daddr @alloc4 goto drop_between
    chain.rules.push_back(
        nft::Rule().Only(family).DaddrIn(SetName(kAlloc, family)).Goto(kDropBetween.name));
  }
  return chain;
}

// Notes by source and destination.
nft::Chain DropsOf(const DroppingChain& chain, std::string_view noun) {
  std::vector<nft::Rule> notes;
  notes.reserve(kFamilies.size());
  for (const Family family : kFamilies) {
    // meta nfproto ipv4
    //   update @inbound_drops4 { ip saddr . ip daddr timeout 1h counter } drop
    notes.push_back(nft::Rule().Only(family).NoteAddresses(SetName(noun, family), kDropTimeoutMs));
  }
  return DropChain(chain, std::move(notes));
}

// Drops packets that belong to no connection and would leave the node untranslated. Does not drop
// packets between our networks, which are never translated: with two subnets on one bridge, an ICMP
// redirect of the kernel makes packets of one direction pass directly between the ports, so that
// conntrack sees only the other direction.
nft::Chain Invalid() {
  nft::Chain chain = {.name = kInvalid};
  for (const Family family : kFamilies) {
    // ip saddr . ip daddr @nomasq4 return
    chain.rules.push_back(
        nft::Rule().Only(family).SaddrAndDaddrIn(SetName(kNoMasq, family)).Return());
    // ip saddr @masq4 iifname @bridges oifname != @gateways drop
    chain.rules.push_back(nft::Rule()
                              .Only(family)
                              .SaddrIn(SetName(kMasq, family))
                              .IifnameIn(kBridges)
                              .OifnameNotIn(kGateways)
                              .Drop());
  }
  return chain;
}

nft::Chain FromAllocations(int mark_bit) {
  return {.name = kFromAllocations,
          .rules = {
              // iifname @ingress_restricted oifname @ingress_restricted
              //   iifname . oifname != @ingress_allowed ct status ! dnat jump between_networks
              // First, so that no later accept, not even the operator's, opens what ingressPolicy
              // closes.
              nft::Rule()
                  .IifnameIn(kIngressRestricted)
                  .OifnameIn(kIngressRestricted)
                  .IfnamesNotIn(kIngressAllowed)
                  .CtStatusNotDnat()
                  .Jump(kBetweenNetworks),
              // meta mark set meta mark | 0x1000 accept
              nft::Rule().SetMarkBit(mark_bit).Accept(),
          }};
}

// Comes one step before the chains of iptables: what is accepted here carries the mark that the
// static rules accept there. Every rule names an allocation's address: we leave alone other packets
// on a bridge that is not ours alone, such as the node's own bridge to its LAN. In each rule the
// cheapest match comes first (a bit, an address family, a set), since everything that the node
// forwards passes here.
nft::Chain Forward(int mark_bit) {
  nft::Chain chain = {
      .name = kForwardChain,
      .hook = nft::Hook{.type = "filter", .point = Point::kForward, .priority = kForwardPriority}};
  const auto accept = [&](nft::Rule rule) {
    chain.rules.push_back(rule.SetMarkBit(mark_bit).Accept());
  };
  const auto drop = [&](nft::Rule rule) { chain.rules.push_back(rule.Goto(kDropInbound.name)); };
  // ct state invalid jump invalid
  chain.rules.push_back(nft::Rule().CtState(nft::kCtInvalid).Jump(kInvalid));
  for (const Family family : kFamilies) {
    // ip saddr @alloc4 iifname @bridges goto from_allocations
    // Matches the interface, too: a source address from outside may be spoofed.
    chain.rules.push_back(nft::Rule()
                              .Only(family)
                              .SaddrIn(SetName(kAlloc, family))
                              .IifnameIn(kBridges)
                              .Goto(kFromAllocations));
  }
  for (const Family family : kFamilies) {
    const std::string alloc = SetName(kAlloc, family);
    // ip daddr @alloc4 ct state established,related meta mark set meta mark | 0x1000 accept
    accept(nft::Rule().Only(family).DaddrIn(alloc).CtState(nft::kCtEstablished | nft::kCtRelated));
    // ip daddr @alloc4 ct status dnat meta mark set meta mark | 0x1000 accept
    accept(nft::Rule().Only(family).DaddrIn(alloc).CtStatusDnat());
  }
  for (const Family family : kFamilies) {
    const std::string closed = SetName(kClosed, family);
    // ip daddr @closed4 iifname != @bridges goto drop_inbound
    // Answers and published ports were accepted above; what the node itself sends is not forwarded.
    drop(nft::Rule().Only(family).DaddrIn(closed).IifnameNotIn(kBridges));
    // ip daddr @closed4 iifname != @gateways oifname @gateways goto drop_inbound
    // A bridge without a gateway of ours may be the node's own bridge to its LAN. An allocation on
    // such a bridge must not open all other allocations to the LAN.
    drop(nft::Rule().Only(family).DaddrIn(closed).IifnameNotIn(kGateways).OifnameIn(kGateways));
  }
  return chain;
}

// Clears our mark after every filter: if postrouting rules save packets' marks (CONNMARK, for two
// uplinks), they must not save ours.
nft::Chain Unmark(int mark_bit) {
  nft::Chain chain = {
      .name = kUnmark,
      .hook = nft::Hook{.type = "filter", .point = Point::kForward, .priority = kLast}};
  for (const Family family : kFamilies) {
    const std::string alloc = SetName(kAlloc, family);
    const auto clear = [&](nft::Rule rule) {
      chain.rules.push_back(rule.ClearMarkBit(mark_bit).Accept());
    };
    // meta mark & 0x1000 == 0x1000 ip saddr @alloc4 meta mark set meta mark & 0xffffefff accept
    clear(nft::Rule().MarkBitIsSet(mark_bit).Only(family).SaddrIn(alloc));
    // meta mark & 0x1000 == 0x1000 ip daddr @alloc4 meta mark set meta mark & 0xffffefff accept
    clear(nft::Rule().MarkBitIsSet(mark_bit).Only(family).DaddrIn(alloc));
  }
  return chain;
}

nft::Chain Postrouting() {
  nft::Chain chain = {
      .name = kPostrouting,
      .hook =
          nft::Hook{.type = "nat", .point = Point::kPostrouting, .priority = kSourceNatPriority}};
  for (const Family family : kFamilies) {
    // ip saddr @masq4 oifname != @gateways ip daddr != 224.0.0.0/4 goto leaving
    // A bridge without a gateway of ours, such as the node's own bridge to its LAN, counts as
    // outside.
    // ip saddr @masqlan4 oifname != @bridges ip daddr != 224.0.0.0/4 goto leaving
    // For an allocation on such a bridge, none of our bridges counts as outside: with br_netfilter,
    // packets to its neighbours pass here, too.
    for (const auto& [noun, inside] :
         {std::pair(kMasq, kGateways), std::pair(kMasqLan, kBridges)}) {
      chain.rules.push_back(nft::Rule()
                                .Only(family)
                                .SaddrIn(SetName(noun, family))
                                .OifnameNotIn(inside)
                                .DaddrNot(Multicast(family))
                                .Goto(kLeaving));
    }
  }
  return chain;
}

// Masquerades packets. Keeps the flow's port if it is free: peers of a game, STUN or DTLS know the
// port, and a flow that the kernel has forgotten goes on with the same port.
nft::Chain Leaving() {
  nft::Chain chain = {.name = kLeaving};
  for (const Family family : kFamilies) {
    // ip saddr . ip daddr @nomasq4 accept
    chain.rules.push_back(
        nft::Rule().Only(family).SaddrAndDaddrIn(SetName(kNoMasq, family)).Accept());
    // ip saddr @randomports4 masquerade fully-random
    chain.rules.push_back(
        nft::Rule().Only(family).SaddrIn(SetName(kRandomPorts, family)).MasqueradeFullyRandom());
  }
  chain.rules.push_back(nft::Rule().Masquerade());
  return chain;
}

std::vector<nft::Chain> Chains(int mark_bit) {
  return {LocalhostGuard(),
          Translated(mark_bit),
          DropsOf(kDropBetween, kIngressDrops),
          DropsOf(kDropInbound, kInboundDrops),
          BetweenNetworks(),
          Invalid(),
          FromAllocations(mark_bit),
          Forward(mark_bit),
          Unmark(mark_bit),
          Leaving(),
          Postrouting()};
}

nft::Element Shared(const char* set, std::vector<std::uint8_t> key) {
  return {.set = set, .key = std::move(key)};
}

constexpr std::array kDropping = {kDropBetween, kDropInbound};

}  // namespace

const Contributor kForwarding = {nft::TableFamily::kInet, &Sets, &Chains, kDropping};

nft::TableId TableId(nft::TableFamily family) {
  return {family, "nomad-bridge"};
}

std::string SetName(std::string_view noun, Family family) {
  return Cat(noun, family == Family::kIpv4 ? '4' : '6');
}

bool IsMadeForPolicies(std::string_view name) {
  return name.find('-') != std::string_view::npos;
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

namespace {

// Returns the elements of nomasq4/6 for one address. Leaves out a prefix that another one contains:
// the kernel refuses intervals that overlap.
std::vector<nft::Element> NoMasqElements(const AddressPolicy& policy, const std::string& comment) {
  const Family family = policy.address.family();
  std::vector<Cidr> chosen;
  std::vector<Cidr> prefixes = policy.not_masqueraded_to;
  std::ranges::stable_sort(prefixes, {}, &Cidr::prefix_length);
  for (const Cidr& prefix : prefixes) {
    if (prefix.address.family() == family &&
        std::ranges::none_of(chosen, [&](const Cidr& c) { return c.Overlaps(prefix); })) {
      chosen.push_back(prefix);
    }
  }
  std::vector<nft::Element> elements;
  for (const Cidr& prefix : chosen) {
    nft::Element element = {.set = SetName(kNoMasq, family),
                            .key = AddressKey(policy.address),
                            .comment = comment,
                            .last_key = AddressKey(policy.address)};
    Append(element.key, AddressKey(prefix.Network()));
    Append(element.last_key, AddressKey(prefix.Last()));
    elements.push_back(std::move(element));
  }
  return elements;
}

}  // namespace

std::vector<nft::Element> Elements(const std::vector<AddressPolicy>& policies,
                                   const std::string& comment) {
  std::vector<nft::Element> elements;
  for (const AddressPolicy& policy : policies) {
    for (const auto& [is_in, noun] : {std::pair(policy.forward, kAlloc),
                                      std::pair(policy.masquerade, kMasq),
                                      std::pair(policy.masquerade_lan, kMasqLan),
                                      std::pair(policy.random_ports, kRandomPorts),
                                      std::pair(policy.snat, kSnat),
                                      std::pair(policy.masquerade_all, kMasqAll),
                                      std::pair(policy.inbound == Inbound::kPublished, kClosed)}) {
      if (is_in) {
        elements.push_back({.set = SetName(noun, policy.address.family()),
                            .key = AddressKey(policy.address),
                            .comment = comment});
      }
    }
    Append(elements, NoMasqElements(policy, comment));
  }
  return elements;
}

nft::Element BridgeElement(const std::string& bridge) {
  return Shared(kBridges, NameKey(bridge));
}

nft::Element GatewayElement(const std::string& bridge) {
  return Shared(kGateways, NameKey(bridge));
}

IngressElements ElementsFor(Ingress ingress, const std::string& bridge) {
  std::vector<std::uint8_t> pair = NameKey(bridge);
  const nft::Element restricted = Shared(kIngressRestricted, pair);
  Append(pair, NameKey(bridge));
  const nft::Element allowed = Shared(kIngressAllowed, std::move(pair));
  IngressElements elements;
  (ingress == Ingress::kOpen ? elements.remove : elements.add).push_back(restricted);
  (ingress == Ingress::kSameBridge ? elements.add : elements.remove).push_back(allowed);
  return elements;
}

std::optional<nft::Element> FindAddress(nft::Socket& socket, const Ip& address) {
  return socket.FindElement(TableId(),
                            {.set = SetName(kAlloc, address.family()), .key = AddressKey(address)});
}

}  // namespace nomad_bridge::firewall
