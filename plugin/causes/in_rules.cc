#include <algorithm>

#include "base/list.h"
#include "base/text.h"
#include "firewall/table.h"
#include "plugin/causes/in_container.h"
#include "plugin/causes/rule_texts.h"

namespace nomad_bridge::causes {
namespace {

using nft::Effect;
using nft::TableFamily;
using Point = nft::Hook::Point;
using TableChain = nft::Socket::TableChain;

// Whether what was asked for gets no further. What translates the destination behind ours does not
// see the packet.
bool Ends(nft::Ruleset& rules, const Effect& effect, const Station& station) {
  if (!effect.is_certain || effect.kind == Effect::Kind::kDropped) {
    return effect.is_certain;
  }
  const bool is_request =
      station.direction == Direction::kRequest || station.direction == Direction::kFromNode;
  const bool is_translated =
      effect.kind != Effect::Kind::kZoned && effect.kind != Effect::Kind::kHops &&
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

// How many hops rules leave to the request and its answer on their way. What none sets suffices.
class HopCount {
 public:
  explicit HopCount(const Journey& journey) : journey_(journey) {}

  // What has left too few to get through `station`; nullptr: nothing.
  const Cause* Enter(const Station& station) {
    if (station.direction != Direction::kRequest && station.direction != Direction::kAnswer) {
      return nullptr;
    }
    if (station.direction != direction_) {
      direction_ = station.direction;
      left_ = std::nullopt;
    }
    const bool is_forwarded = station.point == Point::kForward && !station.accept_mark_bit &&
                              station.family == TableFamily::kAny;
    return is_forwarded ? Forward() : nullptr;
  }

  // By the node.
  const Cause* Forward() {
    left_ = left_ ? std::optional(std::max(*left_ - 1, 0)) : std::nullopt;
    return left_ == 0 ? &by_ : nullptr;
  }

  // The answer has left the node. Who is on the network that it leaves by gets it, also the last
  // hop of it.
  [[nodiscard]] const Cause* Leave() const {
    const bool is_beyond = journey_.uplink && journey_.next_hop != journey_.client;
    return direction_ == Direction::kAnswer && left_ && *left_ <= 1 && is_beyond ? &by_ : nullptr;
  }

  void Set(std::optional<std::uint8_t> hops, Cause by) {
    left_ = hops;
    by_ = std::move(by);
  }

 private:
  const Journey& journey_;
  Direction direction_ = Direction::kRequest;
  std::optional<int> left_;
  Cause by_;
};

// The first thing on the way that ends it; what is behind that is not known.
Causes FindFirst(nft::Ruleset& rules,
                 std::vector<Station>& stations,
                 bool is_inside,
                 const Journey& journey) {
  const std::string_view place = is_inside ? "in the container" : "on the node";
  HopCount hops(journey);
  for (Station& station : stations) {
    if (const Cause* const spent = hops.Enter(station)) {
      return {*spent};
    }
    for (const Effect& effect : EffectsAt(rules, station)) {
      const bool is_hops = effect.kind == Effect::Kind::kHops && effect.is_certain;
      if (is_hops) {
        hops.Set(effect.hops, Describe(effect, place, station, journey));
      } else if (Ends(rules, effect, station)) {
        return {Describe(effect, place, station, journey)};
      }
    }
  }
  const bool is_forwarded =
      is_inside && journey.uplink && OwnGateway(*journey.record, journey.family());
  const Cause* spent = is_forwarded ? hops.Forward() : nullptr;
  spent = spent == nullptr ? hops.Leave() : spent;
  return spent == nullptr ? Causes() : Causes{*spent};
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
Cause CauseOf(const Zone& zone, const Zone& other, const Journey& journey) {
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
      .is_operators = IsOperators(*zone.by, *journey.record)};
}

// What is answered in another zone than that of its request belongs to no connection there, so it
// is not translated back.
Causes FindInZones(nft::Ruleset& rules, std::vector<Station>& stations, const Journey& journey) {
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
      return {of_answer.number != 0 ? CauseOf(of_answer, of_request, journey)
                                    : CauseOf(of_request, of_answer, journey)};
    }
  }
  return {};
}

Causes FindOnNode(nft::Ruleset& rules,
                  std::vector<Station> stations,
                  const Journey& journey,
                  bool with_zones = true) {
  Causes causes = FindFirst(rules, stations, false, journey);
  if (causes.empty() && with_zones) {
    causes = FindInZones(rules, stations, journey);
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

Causes FindInRules(NodeFacts& facts, const Journey& journey) {
  return FindOnNode(facts.Rules(), StationsOnNode(facts, journey), journey);
}

bool IsEndedByBridgeName(NodeFacts& facts, const Journey& journey) {
  const std::optional<Ip>& published = journey.port.host_ip;
  if (published && published->IsLoopback() && journey.record->rules.snat) {
    return true;  // what comes from 127.0.0.1 gets the bridge's address as its source
  }
  const Causes present =
      FindOnNode(facts.Rules(), StationsOnNode(facts, journey, BridgeName::kPresent), journey);
  return !present.empty() && present != FindInRules(facts, journey);
}

std::vector<std::string> FindBesideInRules(NodeFacts& facts, const Journey& journey) {
  std::vector<std::string> notes;
  for (Station& station : StationsBeside(facts, journey)) {
    for (const Effect& effect : EffectsAt(facts.Rules(), station)) {
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

Causes FindInOwnRules(NodeFacts& facts, const Journey& journey, bool with_zones) {
  return FindOnNode(facts.Rules(), StationsOfOwn(facts, journey), journey, with_zones);
}

std::optional<Effect> FindRedirect(Interior& inside, nft::Ruleset& rules, const Journey& journey) {
  for (Station& station : StationsInContainer(inside, journey)) {
    for (const Effect& effect : EffectsAt(rules, station)) {
      if (effect.port && Ends(rules, effect, station)) {
        return effect;
      }
    }
  }
  return std::nullopt;
}

Causes FindInContainerRules(Interior& inside, nft::Ruleset& rules, const Journey& journey) {
  std::vector<Station> stations = StationsInContainer(inside, journey);
  Causes causes = FindFirst(rules, stations, true, journey);
  for (Cause& cause : causes) {
    if (!cause.fix.command.empty()) {
      cause.fix.command = InsideFix(inside.record, cause.fix.command);
    }
  }
  return causes;
}

}  // namespace nomad_bridge::causes
