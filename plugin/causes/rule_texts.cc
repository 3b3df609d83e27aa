#include "plugin/causes/rule_texts.h"

#include <array>
#include <optional>
#include <vector>

#include "base/list.h"
#include "base/text.h"
#include "firewall/foreign_drops.h"

namespace nomad_bridge::causes {
namespace {

using nft::Effect;
using nft::TableFamily;

bool IsIptables(const nft::TableId& table) {
  constexpr std::array<std::string_view, 5> kTables = {
      "filter", "nat", "mangle", "raw", "security"};
  return (table.family == TableFamily::kIp || table.family == TableFamily::kIp6) &&
         Contains(kTables, table.name);
}

std::optional<std::uint16_t> PublishedPort(std::optional<std::uint16_t> port) {
  return port == kClientPort ? std::nullopt : port;
}

// The node's address that the packet is for, or comes from: not the container's.
std::optional<Ip> NodeOf(const nft::Packet& packet, Direction direction, const Journey& journey) {
  const std::optional<Ip>& end =
      direction == Direction::kAnswer ? packet.source : packet.destination;
  return end == journey.port.container_ip ? std::nullopt : end;
}

// All that `address` stands for: any of the node's, or itself.
std::string AddressText(const Ip& address,
                        const Station& station,
                        const Journey& journey,
                        bool for_iptables) {
  std::vector<Ip> addresses = {address};
  if (address == NodeOf(station.packet, station.direction, journey) && journey.node) {
    addresses = {*journey.node};
    Append(addresses, journey.also);
    Append(addresses, journey.elsewhere);
  }
  return addresses.size() == 1 ? address.Text()
         : for_iptables        ? Joined(addresses, ",")
                               : Cat("{ ", Joined(addresses, ", "), " }");
}

// The ends of the packet, as iptables or nft matches them.
std::string MatchText(const Station& station, const Journey& journey, bool for_iptables) {
  const nft::Packet& packet = station.packet;
  if (packet.icmp6_type) {
    return Format("-p icmpv6 --icmpv6-type {} ", int{*packet.icmp6_type});
  }
  const auto part = [&](const auto& value, std::string_view iptables, std::string_view nft) {
    return value ? Format("{}{} ", for_iptables ? iptables : nft, *value) : std::string();
  };
  const auto end = [&](const std::optional<Ip>& address) {
    return address ? std::optional(AddressText(*address, station, journey, for_iptables))
                   : std::nullopt;
  };
  const std::string_view ip = journey.family() == Family::kIpv4 ? "ip " : "ip6 ";
  const std::string protocol = journey.Protocol();
  std::string text = part(end(packet.source), "-s ", Cat(ip, "saddr ")) +
                     part(end(packet.destination), "-d ", Cat(ip, "daddr "));
  if (for_iptables) {
    text += Format("-p {} ", protocol);
  }
  return text + part(PublishedPort(packet.source_port), "--sport ", Cat(protocol, " sport ")) +
         part(PublishedPort(packet.destination_port), "--dport ", Cat(protocol, " dport "));
}

}  // namespace

// A rule on its way is in a chain that is for the operator's own: it is meant.
bool IsOperators(const Effect& effect, const state::Record& record) {
  const std::array<std::string_view, 6> chains = {record.rules.forward_hook.admin_chain,
                                                  "DOCKER-USER",
                                                  "ufw-user-forward",
                                                  "ufw6-user-forward",
                                                  "ufw-user-output",
                                                  "ufw6-user-output"};
  return IsIptables(effect.table) && std::ranges::any_of(effect.path, [&](const std::string& each) {
           return Contains(chains, std::string_view(each));
         });
}

// Before the rule, in the same chain: a verdict there ends the base chain.
std::string FixOf(const Effect& effect, const Station& station, const Journey& journey) {
  const bool is_iptables = IsIptables(effect.table);
  if (station.direction == Direction::kLookup && !is_iptables) {
    return Format("nft insert rule {} {} {} {} accept",
                  nft::Text(effect.table.family),
                  ShellWord(effect.table.name),
                  ShellWord(effect.chain),
                  station.packet.arp_operation
                      ? "meta protocol arp"
                      : "icmpv6 type '{ nd-neighbor-solicit, nd-neighbor-advert }'");
  }
  const std::string match = MatchText(station, journey, is_iptables);
  if (is_iptables) {
    return Format("{} -t {} -I {} {}-j ACCEPT",
                  effect.table.family == TableFamily::kIp ? "iptables" : "ip6tables",
                  effect.table.name,
                  ShellWord(effect.chain),
                  match);
  }
  return station.accept_mark_bit
             ? firewall::AcceptMarkCommand(effect.table, effect.chain, *station.accept_mark_bit)
             : Format("nft insert rule {} {} {} {}accept",
                      nft::Text(effect.table.family),
                      ShellWord(effect.table.name),
                      ShellWord(effect.chain),
                      match);
}

// One that is not journey.node is named: others may well answer.
std::string DoesText(const Effect& effect, const Station& station, const Journey& journey) {
  if (!station.about.empty()) {
    return Cat("drops ", station.about);
  }
  constexpr std::array<std::string_view, 4> kWhat = {"what comes for the port",
                                                     "what the port answers",
                                                     "what comes from the LAN for its container",
                                                     "what this node itself asks the port"};
  const std::string_view what = kWhat.at(static_cast<std::size_t>(station.direction));
  const std::optional<Ip> node = NodeOf(station.packet, station.direction, journey);
  const std::string_view does = effect.kind == Effect::Kind::kDropped      ? "drops"
                                : effect.kind == Effect::Kind::kTranslated ? "redirects"
                                : effect.kind == Effect::Kind::kHops ? "leaves too few hops to"
                                                                     : "does not track";
  return Format("{} {}{}", does, what, !node || node == journey.node ? "" : Cat(" at ", *node));
}

// "on the node, chain forward of table inet mine (policy drop)"
std::string RuleText(const Effect& effect, std::string_view place) {
  return Format("{}, chain {} of table {} ({})",
                place,
                effect.chain,
                nft::Text(effect.table),
                effect.handle == 0 ? std::string("policy drop")
                                   : Format("rule with handle {}", effect.handle));
}

Cause Describe(const Effect& effect,
               std::string_view place,
               const Station& station,
               const Journey& journey) {
  return {.text = Cat(RuleText(effect, place), ' ', DoesText(effect, station, journey)),
          .fix = FixOf(effect, station, journey),
          .is_operators = IsOperators(effect, *journey.record)};
}

}  // namespace nomad_bridge::causes
