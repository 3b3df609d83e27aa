#include "plugin/rules/policy_ports.h"

#include <algorithm>
#include <utility>

#include <linux/if_ether.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>

#include "base/list.h"
#include "base/text.h"
#include "firewall/port_filter.h"
#include "firewall/table.h"
#include "plugin/rules/policy_admission.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::rules {
namespace {

using firewall::kFamilies;
using firewall::SetName;
using Point = nft::Hook::Point;

// Set of ifname: the ports of allocations for which policies refuse something.
constexpr const char* kJudgedPorts = "judged";
constexpr const char* kHerePorts = "here";
constexpr const char* kInByPort = "in";
constexpr std::string_view kPortAddress = "port_address";

constexpr const char* kLinkLocal = "link_local";
constexpr const char* kToJudged = "to_judged";
constexpr std::uint16_t kDhcpServer = 67;
constexpr std::uint16_t kDhcpClient = 68;
constexpr std::uint8_t kMld2Report = 143;

std::string SelectedPorts(const std::string& name) {
  return Cat(kSelected, '-', name);
}

std::vector<firewall::SetRow> PortSets() {
  using enum nft::Type;
  using firewall::Role;
  return {{kJudgedPorts, {kIfname}, {}, Role::kJudged},
          {kHerePorts, {kIfname}, {}, Role::kJudged},
          {kInByPort, {kIfname}, {kVerdict}, Role::kJudged},
          {kPortAddress, {kIfname, kIpv4Addr}, {}, Role::kJudged}};
}

std::vector<firewall::SetRow> PortShapes() {
  using enum nft::Type;
  using firewall::Role;
  return {{kSelected, {kIfname}, {}, Role::kJudged}, {kPrefixes, {kIpv4Addr}, {}, Role::kJudged}};
}

std::uint16_t EtherTypeOf(Family family) {
  return family == Family::kIpv4 ? ETH_P_IP : ETH_P_IPV6;
}
nft::Rule Ipv6Frame() {
  return nft::Rule().Protocol(ETH_P_IPV6);
}
nft::Rule& MatchLinkLocal(nft::Rule& rule, const nft::Field& field) {
  nft::Bytes mask = {0xff, 0xc0};
  nft::Bytes prefix = {0xfe, 0x80};
  mask.resize(field.bytes);
  prefix.resize(field.bytes);
  return rule.IsMasked(field, mask, prefix);
}

// Link-local addresses are in no set of an allocation, and the rules of table inet do not see which
// port a packet came from. So packets with such an address, or from ::, may carry only ICMPv6,
// which finds addresses. A packet whose protocol cannot be determined is not ICMPv6.
nft::Chain LinkLocal() {
  nft::Rule from = Ipv6Frame();
  nft::Rule to = Ipv6Frame();
  return {.name = kLinkLocal,
          .rules = {
              // meta l4proto ipv6-icmp return
              nft::Rule().L4Proto(IPPROTO_ICMPV6).Return(),
              // ip6 saddr fe80::/10 drop
              MatchLinkLocal(from, nft::kIp6Saddr).Drop(),
              // ip6 daddr fe80::/10 drop
              MatchLinkLocal(to, nft::kIp6Daddr).Drop(),
              // ip6 saddr :: drop
              Ipv6Frame().Is(nft::kIp6Saddr, nft::Bytes(nft::kIp6Saddr.bytes)).Drop(),
          }};
}

// Judges a frame to a closed port. Chain judge of table inet judges those to the allocation's own
// addresses. What finds addresses and members of groups passes. So does the answer of a DHCP server
// that is no allocation; the node's own answers do not pass here. Other frames are judged by the
// port that they came from, whatever their source is.
nft::Chain ToJudged() {
  nft::Rule to_link_local = Ipv6Frame();
  return {
      .name = kToJudged,
      .rules = {
          // meta protocol ip6 jump link_local
          Ipv6Frame().Jump(kLinkLocal),
          // oifname . ip daddr @port_address4 return, oifname . ip6 daddr @port_address6 return
          nft::Rule()
              .Protocol(ETH_P_IP)
              .OutPortWith(nft::kIpDaddr, SetName(kPortAddress, Family::kIpv4))
              .Return(),
          Ipv6Frame().OutPortWith(nft::kIp6Daddr, SetName(kPortAddress, Family::kIpv6)).Return(),
          // meta priority 6e62:6120 return: an answer to an address that the allocation has added
          nft::Rule().PriorityIs(kAnswerPriority).Return(),
          // meta protocol arp return
          nft::Rule().Protocol(ETH_P_ARP).Return(),
          // icmpv6 type 130-137 return, icmpv6 type mld2-listener-report return
          Ipv6Frame()
              .L4Proto(IPPROTO_ICMPV6)
              .Between(nft::kIcmpv6Type, {MLD_LISTENER_QUERY}, {ND_REDIRECT})
              .Return(),
          Ipv6Frame().L4Proto(IPPROTO_ICMPV6).Is(nft::kIcmpv6Type, {kMld2Report}).Return(),
          // ip6 daddr fe80::/10 return: ICMPv6, after link_local
          MatchLinkLocal(to_link_local, nft::kIp6Daddr).Return(),
          // meta protocol ip meta l4proto igmp return
          nft::Rule().Protocol(ETH_P_IP).L4Proto(IPPROTO_IGMP).Return(),
          // meta protocol ip udp sport 67 udp dport 68 iifname != @here return
          nft::Rule()
              .Protocol(ETH_P_IP)
              .L4Proto(IPPROTO_UDP)
              .Sport(kDhcpServer)
              .Dport(kDhcpClient)
              .IifnameNotIn(kHerePorts)
              .Return(),
          // oifname vmap @in
          nft::Rule().OifnameVmap(kInByPort),
      }};
}

std::vector<nft::Chain> PortChains(int /*accept_mark_bit*/) {
  return {LinkLocal(),
          ToJudged(),
          {.name = "from_judged",
           .hook = nft::Hook{.type = "filter",
                             .point = Point::kPrerouting,
                             .priority = firewall::kBridgeDstnat},
           .rules =
               {
                   // meta protocol ip6 iifname @judged goto link_local
                   Ipv6Frame().IifnameIn(kJudgedPorts).Goto(kLinkLocal),
               }},
          // Added to the port filter's chain.
          {.name = "forward",
           .rules = {
               // oifname @judged goto to_judged
               nft::Rule().OifnameIn(kJudgedPorts).Goto(kToJudged),
           }}};
}

// Turns one step of a chain into rules: one rule, or one per family if it names addresses, or ICMP,
// which has a number in each family.
class PortStep {
 public:
  explicit PortStep(const policy::Step& step) : step_(step) {}

  [[nodiscard]] std::vector<nft::Rule> Rules() const {
    using Outcome = policy::Step::Outcome;
    if (step_.peer == PeerIs::kNode || step_.outcome == Outcome::kContinue ||
        step_.outcome == Outcome::kWouldRefuse) {
      return {};  // the node's own frames do not pass here; nothing is counted
    }
    if (!HasFamily()) {
      return {Completed(nft::Rule(), Family::kIpv4)};
    }
    std::vector<nft::Rule> rules;
    rules.reserve(kFamilies.size());
    for (const Family family : kFamilies) {
      rules.push_back(Completed(nft::Rule().Protocol(EtherTypeOf(family)), family));
    }
    return rules;
  }

 private:
  using PeerIs = policy::Step::PeerIs;

  [[nodiscard]] bool IsIcmp() const {
    return step_.ports && step_.ports->protocol == Protocol::kIcmp;
  }
  [[nodiscard]] bool HasFamily() const { return IsIcmp() || step_.peer == PeerIs::kAddress; }

  nft::Rule& MatchPeer(nft::Rule& rule, Family family) const {
    switch (step_.peer) {
      case PeerIs::kMember:
        return rule.IifnameIn(SelectedPorts(step_.peers));
      case PeerIs::kAddress:
        return rule.FieldIn(family == Family::kIpv4 ? nft::kIpSaddr : nft::kIp6Saddr,
                            SetFor(kPrefixes, family, step_.peers));
      case PeerIs::kOutside:
        return rule.IifnameNotIn(kHerePorts);
      case PeerIs::kAnyone:
      case PeerIs::kNode:
        break;
    }
    return rule;
  }

  [[nodiscard]] nft::Rule Completed(nft::Rule rule, Family family) const {
    MatchPeer(rule, family);
    if (IsIcmp() && family == Family::kIpv6) {
      rule.L4Proto(IPPROTO_ICMPV6);
    } else if (step_.ports) {
      rule.L4Proto(static_cast<std::uint8_t>(step_.ports->protocol));
    }
    if (step_.ports && !step_.ports->AreAll()) {
      rule.Dport(step_.ports->first, step_.ports->last);
    }
    const bool is_refusal = step_.outcome == policy::Step::Outcome::kReject ||
                            step_.outcome == policy::Step::Outcome::kDrop;
    return (is_refusal ? rule.Drop() : rule.Return()).Comment(step_.comment);
  }

  const policy::Step& step_;
};

}  // namespace

const firewall::Contributor kPolicyPorts = {nft::TableFamily::kBridge, &PortSets, &PortChains};

const firewall::Contributor kPortSetShapes = {nft::TableFamily::kBridge, &PortShapes, [](int) {
                                                return std::vector<nft::Chain>();
                                              }};

std::vector<std::string> PortsOf(const state::Record& record) {
  return record.link.bridge.empty() ? record.link.foreign_ports
                                    : std::vector{state::HostVethName(record.id)};
}

std::vector<nft::Element> PolicyPortElements(const state::Record& record,
                                             const std::string& comment) {
  const state::Record::Policy& policy = record.rules.policy;
  std::vector<nft::Element> elements;
  for (const std::string& port : PortsOf(record)) {
    const auto add = [&](const std::string& set) -> nft::Element& {
      return elements.emplace_back(firewall::PortElement(set, port, comment));
    };
    if (policy.MayRefuse()) {
      add(kJudgedPorts);
    }
    if (!policy.judges_ports) {
      continue;
    }
    add(kHerePorts);
    for (const std::string& set : policy.sets) {
      add(SelectedPorts(set));
    }
    if (!policy.ClosesIn()) {
      continue;
    }
    add(kInByPort).verdict = nft::Verdict{nft::Verdict::Code::kJump, *policy.in};
    for (const Cidr& cidr : record.ipam.addresses) {
      Append(add(SetName(kPortAddress, cidr.address.family())).key,
             firewall::AddressKey(cidr.address));
    }
  }
  return elements;
}

void AddPortChain(const policy::Chain& chain, nft::Table& table) {
  nft::Chain made = {.name = chain.name};
  for (const policy::Step& step : chain.steps) {
    Append(made.rules, PortStep(step).Rules());
    if (step.peer == policy::Step::PeerIs::kMember) {
      AddPortSet(step.peers, table);
    } else if (step.peer == policy::Step::PeerIs::kAddress) {
      for (const Family family : kFamilies) {
        AddSetOnce({.name = SetFor(kPrefixes, family, step.peers),
                    .key = {firewall::AddressType(family)},
                    .data = {},
                    .flags = nft::kInterval},
                   table);
      }
    }
  }
  table.chains.push_back(std::move(made));
}

void AddPortSet(const std::string& selected, nft::Table& table) {
  AddSetOnce({.name = SelectedPorts(selected), .key = {nft::Type::kIfname}, .data = {}}, table);
}

}  // namespace nomad_bridge::rules
