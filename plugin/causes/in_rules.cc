#include <algorithm>
#include <array>

#include "base/list.h"
#include "base/text.h"
#include "firewall/foreign_drops.h"
#include "firewall/table.h"
#include "plugin/causes/stations.h"

namespace nomad_bridge::causes {
namespace {

using nft::Effect;
using nft::TableFamily;
using Point = nft::Hook::Point;
using TableChain = nft::Socket::TableChain;

bool IsIptables(const nft::TableId& table) {
  constexpr std::array<std::string_view, 5> kTables = {
      "filter", "nat", "mangle", "raw", "security"};
  return (table.family == TableFamily::kIp || table.family == TableFamily::kIp6) &&
         Contains(kTables, table.name);
}

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
               const Journey& journey,
               const state::Record& record) {
  return {.text = Cat(RuleText(effect, place), ' ', DoesText(effect, station, journey)),
          .fix = FixOf(effect, station, journey),
          .is_operators = IsOperators(effect, record)};
}

// Whether what was asked for gets no further. What translates the destination behind ours does not
// see the packet.
bool Ends(nft::Ruleset& rules, const Effect& effect, const Station& station) {
  if (!effect.is_certain || effect.kind == Effect::Kind::kDropped) {
    return effect.is_certain;
  }
  const bool is_request =
      station.direction == Direction::kRequest || station.direction == Direction::kFromNode;
  const bool is_translated =
      effect.kind != Effect::Kind::kZoned &&
      (station.point == Point::kPrerouting || (is_request && station.point == Point::kOutput));
  if (!is_translated || station.family != TableFamily::kAny ||
      station.direction == Direction::kLookup) {
    return false;
  }
  if (effect.kind == Effect::Kind::kUntracked) {
    // Behind conntrack it does nothing; without our table nothing is translated.
    return effect.base.hook->priority <= kConntrackPriority && rules.Has(firewall::TableId());
  }
  return is_request && (station.IsBeforeOurs() || !rules.Has(firewall::TableId()));
}

// The first thing on the way that ends it; what is behind that is not known.
Causes FindFirst(nft::Ruleset& rules,
                 std::vector<Station>& stations,
                 std::string_view place,
                 const Journey& journey,
                 const state::Record& record) {
  for (Station& station : stations) {
    for (const Effect& effect : EffectsAt(rules, station)) {
      if (Ends(rules, effect, station)) {
        return {Describe(effect, place, station, journey, record)};
      }
    }
  }
  return {};
}

// In which conntrack looks for what belongs to the packets of `station`.
struct Zone {
  const Station* station;
  std::optional<std::uint16_t> number = 0;  // nullopt: not known
  std::optional<Effect> by = std::nullopt;  // what puts them there, if that is not 0
};

Zone ZoneAt(nft::Ruleset& rules, Station& station) {
  for (Effect& effect : EffectsAt(rules, station)) {
    if (effect.kind == Effect::Kind::kZoned) {
      const auto number = effect.is_certain ? effect.zone : std::nullopt;
      return {.station = &station, .number = number, .by = std::move(effect)};
    }
  }
  return {.station = &station};
}

bool IsBeforeConntrack(const Station& station) {
  return station.family == TableFamily::kAny && station.last == kConntrackPriority &&
         station.direction != Direction::kLookup;
}

// What goes the other way than the packets of `zone` is looked for in `other`. The zone of answers
// to the node is that of answers to others, which a command would cut off: only advice helps there.
Cause CauseOf(const Zone& zone,
              const Zone& other,
              const Journey& journey,
              const state::Record& record) {
  const bool is_answers = zone.station->direction == Direction::kAnswer;
  const bool is_own = (is_answers ? other : zone).station->direction == Direction::kFromNode;
  const std::string asked = is_own ? "what this node itself asks " : "what comes for ";
  return {
      .text = Format("{} has conntrack look for {} in zone {}, and for {} in zone {}: answers "
                     "are not translated back",
                     RuleText(*zone.by, "on the node"),
                     is_answers ? "what the port answers" : Cat(asked, "the port"),
                     *zone.number,
                     is_answers ? Cat(asked, "it") : "what it answers",
                     *other.number),
      .fix = is_own && is_answers
                 ? Fix::Advice(Format("put what this node itself asks into zone {}, too: at the "
                                      "output hook, priority raw",
                                      *zone.number))
                 : Fix(FixOf(*zone.by, *zone.station, journey)),
      .is_operators = IsOperators(*zone.by, record)};
}

// What is answered in another zone than that of its request belongs to no connection there, so it
// is not translated back.
Causes FindInZones(nft::Ruleset& rules,
                   std::vector<Station>& stations,
                   const Journey& journey,
                   const state::Record& record) {
  const auto answer = std::ranges::find_if(stations, [](const Station& each) {
    return IsBeforeConntrack(each) && each.direction == Direction::kAnswer;
  });
  if (answer == stations.end() || !rules.Has(firewall::TableId())) {
    return {};
  }
  const Zone of_answer = ZoneAt(rules, *answer);
  for (Station& station : stations) {
    if (!IsBeforeConntrack(station) || station.direction == Direction::kAnswer) {
      continue;
    }
    const Zone of_request = ZoneAt(rules, station);
    if (of_request.number && of_answer.number && of_request.number != of_answer.number) {
      return {of_answer.number != 0 ? CauseOf(of_answer, of_request, journey, record)
                                    : CauseOf(of_request, of_answer, journey, record)};
    }
  }
  return {};
}

Causes FindOnNode(nft::Ruleset& rules,
                  std::vector<Station> stations,
                  const Journey& journey,
                  const state::Record& record,
                  bool with_zones = true) {
  Causes causes = FindFirst(rules, stations, "on the node", journey, record);
  if (causes.empty() && with_zones) {
    causes = FindInZones(rules, stations, journey, record);
  }
  for (Cause& cause : causes) {
    if (cause.is_operators) {
      cause.fix =
          Fix::Advice(Cat("that chain has the operator's own rules; if this one is not meant: ",
                          cause.fix.command));
    }
  }
  return causes;
}

}  // namespace

std::vector<Effect> EffectsAt(nft::Ruleset& rules, Station& station) {
  const auto concerns = [&](const TableChain& base) {
    const nft::Hook& hook = *base.chain.hook;
    // Of one priority the kernel asks the younger first. Which that is, the tables tell.
    if (hook.priority == station.ours &&
        rules.IsYounger(base.table, firewall::TableId()) != station.IsBeforeOurs()) {
      return false;
    }
    return base.table.name != firewall::TableId().name && hook.priority >= station.first &&
           hook.priority <= station.last &&
           (station.device.empty() || Contains(hook.devices, station.device));
  };
  const std::optional<TableFamily> family =
      station.family == TableFamily::kAny ? std::nullopt : std::optional(station.family);
  return rules.Follow(station.packet, station.point, concerns, family);
}

bool AreRulesWhole(const Mismatches& found) {
  using Area = Mismatch::Area;
  return std::ranges::none_of(found.left(), [](const Mismatch& mismatch) {
    return mismatch.area == Area::kTable || mismatch.area == Area::kStaticRules ||
           mismatch.area == Area::kElement;
  });
}

Causes FindInRules(NodeFacts& facts,
                   nft::Ruleset& rules,
                   const state::Record& record,
                   const Journey& journey) {
  return FindOnNode(rules, StationsOnNode(facts, record, journey), journey, record);
}

bool IsEndedByBridgeName(NodeFacts& facts,
                         nft::Ruleset& rules,
                         const state::Record& record,
                         const Journey& journey) {
  const std::optional<Ip>& published = journey.port.host_ip;
  if (published && published->IsLoopback() && record.rules.snat) {
    return true;  // what comes from 127.0.0.1 gets the bridge's address as its source
  }
  const Causes present = FindOnNode(
      rules, StationsOnNode(facts, record, journey, BridgeName::kPresent), journey, record);
  return !present.empty() && present != FindInRules(facts, rules, record, journey);
}

std::vector<std::string> FindBesideInRules(NodeFacts& facts,
                                           nft::Ruleset& rules,
                                           const state::Record& record,
                                           const Journey& journey) {
  std::vector<std::string> notes;
  for (Station& station : StationsBeside(facts, record, journey)) {
    for (const Effect& effect : EffectsAt(rules, station)) {
      const std::string rule = RuleText(effect, "on the node");
      if (effect.is_certain && effect.kind == Effect::Kind::kDropped) {
        notes.push_back(Cat(rule, ' ', DoesText(effect, station, journey)));
        return notes;  // what is behind that is not known
      }
      if (effect.is_certain && effect.source &&
          !facts.host.net.AllAddresses().contains(*effect.source)) {
        notes.push_back(
            Format("{} gives {} the source {}, which is no address of this node: "
                   "answers come only if that is routed here",
                   rule,
                   station.about,
                   *effect.source));
      }
    }
  }
  return notes;
}

Causes FindInOwnRules(NodeFacts& facts,
                      nft::Ruleset& rules,
                      const state::Record& record,
                      const Journey& journey,
                      bool with_zones) {
  return FindOnNode(rules, StationsOfOwn(facts, record, journey), journey, record, with_zones);
}

std::optional<Effect> FindRedirect(rtnl::Socket& container,
                                   nft::Ruleset& rules,
                                   const state::Record& record,
                                   const Journey& journey) {
  for (Station& station : StationsInContainer(container, record, journey)) {
    for (const Effect& effect : EffectsAt(rules, station)) {
      if (effect.port && Ends(rules, effect, station)) {
        return effect;
      }
    }
  }
  return std::nullopt;
}

Causes FindInContainerRules(rtnl::Socket& container,
                            nft::Ruleset& rules,
                            const state::Record& record,
                            const Journey& journey) {
  std::vector<Station> stations = StationsInContainer(container, record, journey);
  Causes causes = FindFirst(rules, stations, "in the container", journey, record);
  for (Cause& cause : causes) {
    if (!cause.fix.command.empty()) {
      cause.fix.command = InsideFix(record, cause.fix.command);
    }
  }
  return causes;
}

}  // namespace nomad_bridge::causes
