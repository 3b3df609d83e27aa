#include "plugin/causes/stations.h"

namespace nomad_bridge::causes {
namespace {

using Point = nft::Hook::Point;

constexpr std::uint32_t kAllBits = 0xffffffff;

std::optional<std::uint32_t> Whole(const nft::KnownBits& mark) {
  return mark.known == kAllBits ? std::optional(mark.value) : std::nullopt;
}

// The first packet of a new connection and its answer, from station to station: nothing marks a
// packet that comes from a wire, or from another namespace.
class MarkedWalk {
 public:
  void Pass(nft::Ruleset& rules, Station& station) {
    if (station.direction != direction_) {
      direction_ = station.direction;
      mark_ = {.known = kAllBits};
    }
    const bool is_forwarded =
        station.point == Point::kForward && station.family == nft::TableFamily::kAny;
    if (is_forwarded && !station.accept_mark_bit) {  // the first that is behind the routes
      (direction_ == Direction::kRequest ? found_.request : found_.answer) = Whole(mark_);
    }
    const bool is_connection_known =
        station.family == nft::TableFamily::kAny && station.last > kConntrackPriority;
    // Our chain's bit, which the last chain of that hook takes away again.
    const nft::KnownBits ours = station.packet.mark;
    station.packet.mark = {.value = (mark_.value & ~ours.known) | ours.value,
                           .known = mark_.known | ours.known};
    station.packet.ct_mark = is_connection_known ? connection_ : nft::KnownBits();
    static_cast<void>(EffectsAt(rules, station));
    mark_ = station.packet.mark;
    mark_.value &= ~ours.known;
    connection_ = is_connection_known ? station.packet.ct_mark : connection_;
  }

  [[nodiscard]] const Marks& found() const { return found_; }

 private:
  Direction direction_ = Direction::kRequest;
  nft::KnownBits mark_ = {.known = kAllBits};
  nft::KnownBits connection_ = {.known = kAllBits};
  Marks found_;
};

}  // namespace

Marks FindMarks(NodeFacts& facts, const Journey& journey) {
  if (!facts.HasRulesAboutMarks(journey.family())) {
    return {};
  }
  // Filters of tc may set some.
  if (!journey.uplink || !FindTrafficControl(facts.host, journey).empty()) {
    return {.request = std::nullopt, .answer = std::nullopt};
  }
  Journey at_one_address = journey;
  at_one_address.also.clear();
  MarkedWalk walk;
  for (Station& station : StationsOnNode(facts, at_one_address)) {
    if (station.direction == Direction::kRequest || station.direction == Direction::kAnswer) {
      walk.Pass(facts.Rules(), station);
    }
  }
  return walk.found();
}

}  // namespace nomad_bridge::causes
