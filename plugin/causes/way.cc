#include "plugin/causes/way.h"

#include <algorithm>

#include "netlink/nft/table.h"

namespace nomad_bridge::causes {
namespace {

using nft::TableFamily;
using probe::PacketKind;
using Place = Connection::Place;
using Point = nft::Hook::Point;
using What = Station::What;

// Builds the stations of a connection, and finds out from the trail which stations its packets have
// passed.
class Builder {
 public:
  Builder(const Connection& connection, const Trail& trail)
      : connection_(connection), trail_(trail) {}

  Way Build() {
    AddBegin();
    if (connection_.IsInside()) {
      AddInside();
    } else if (IsBridged()) {
      AddContainer();
    } else {
      AddRouting();
    }
    MarkResults();
    return std::move(way_);
  }

 private:
  // Returns whether packets only cross a bridge: from one allocation to another on the same bridge,
  // or from beyond through a bridge that is the uplink, too.
  [[nodiscard]] bool IsBridged() const {
    if (connection_.to != Place::kAllocation || connection_.IsPublished() ||
        connection_.from == Place::kNode) {
      return false;
    }
    const std::string& bridge = connection_.server_record->link.bridge;
    return !bridge.empty() &&
           (connection_.client_record ? connection_.client_record->link.bridge == bridge
                                      : connection_.uplink && connection_.uplink->name == bridge);
  }

  void AddBegin() {
    switch (connection_.from) {
      case Place::kBeyond:
        return Add(What::kEnter,
                   connection_.uplink->name,
                   IsBridged() ? IsInBridge() : IsAt(PacketKind::kRequest, Point::kPrerouting));
      case Place::kNode:
        return Add(What::kEnter, "output", IsAt(PacketKind::kRequest, Point::kPostrouting));
      case Place::kAllocation:
        return Add(
            What::kEnter, "client", IsInBridge() || IsAt(PacketKind::kRequest, Point::kPrerouting));
    }
  }

  [[nodiscard]] bool IsInBridge() const {
    return trail_.Find({.packet = PacketKind::kRequest,
                        .family = TableFamily::kBridge,
                        .point = Point::kPrerouting}) != nullptr;
  }

  // Returns whether the packet was seen on `side` before the rules of a hook or, if `is_end`, after
  // them.
  [[nodiscard]] bool IsAt(PacketKind packet,
                          Point point,
                          bool is_end = false,
                          Side side = Side::kNode) const {
    return trail_.Find({.side = side, .packet = packet, .point = point, .is_end = is_end}) !=
           nullptr;
  }

  void AddRouting() {
    const bool is_routed = connection_.from != Place::kNode;
    if (is_routed) {
      Add(What::kPrerouting, "prerouting", IsAt(PacketKind::kRequest, Point::kPrerouting, true));
      const bool is_to_node = connection_.to == Place::kNode;
      Add(What::kRoute,
          "route",
          IsAt(PacketKind::kRequest, is_to_node ? Point::kInput : Point::kForward));
    }
    if (connection_.to == Place::kNode) {
      Add(What::kInput, "input", IsAt(PacketKind::kRequest, Point::kInput, true));
      return AddAnswers(IsAt(PacketKind::kAnswer, Point::kOutput));
    }
    if (is_routed) {
      Add(What::kForward, "forward", IsAt(PacketKind::kRequest, Point::kForward, true));
    }
    if (connection_.to == Place::kBeyond) {
      return Add(What::kLeave,
                 connection_.uplink ? connection_.uplink->name : "uplink",
                 trail_.IsCaught(PacketKind::kRequest) || trail_.HasGoneElsewhere());
    }
    AddContainer();
  }

  void AddContainer() {
    const state::Record& record = *connection_.server_record;
    const std::string& network = record.link.gateway_ifname;
    const bool is_named =
        std::ranges::find(way_.stations, network, &Station::name) != way_.stations.end();
    Add(What::kBridge,
        network.empty() || is_named ? "network" : network,
        IsAt(PacketKind::kRequest, Point::kPrerouting, false, Side::kServer));
    AddInside();
  }

  void AddInside() {
    const auto is_inside = [&](PacketKind packet, Point point, bool is_end) {
      return IsAt(packet, point, is_end, Side::kServer);
    };
    Add(What::kContainer,
        "container",
        is_inside(PacketKind::kRequest, Point::kInput, true) || trail_.HasLeftForReader());
    AddAnswers(is_inside(PacketKind::kAnswer, Point::kOutput, false));
  }

  // Adds the stations of the service and its answer. A datagram is caught before its service, so it
  // has no answer; who takes the frames of a sandbox or a virtual machine is not known either.
  void AddAnswers(bool is_answered) {
    if (connection_.protocol == Protocol::kTcp) {
      Add(What::kService, "service", is_answered && !trail_.IsRefused());
      Add(What::kAnswer, "answer", IsBack());
    } else if (trail_.reader_link.empty()) {
      Add(What::kService, "service", trail_.is_heard);
    }
  }

  [[nodiscard]] bool IsBack() const {
    if (trail_.IsRefused()) {
      return false;
    }
    return connection_.from == Place::kBeyond
               ? trail_.IsCaught(PacketKind::kAnswer)
               : IsAt(PacketKind::kAnswer,
                      Point::kInput,
                      true,
                      connection_.from == Place::kNode ? Side::kNode : Side::kClient);
  }

  void Add(What what, const std::string& name, bool has_passed) {
    way_.stations.push_back(
        {.what = what,
         .name = name,
         .result = has_passed ? Station::Result::kPassed : Station::Result::kNotReached});
  }

  // A packet that was seen at a later station has passed the earlier ones.
  void MarkResults() {
    bool has_passed = false;
    for (auto station = way_.stations.rbegin(); station != way_.stations.rend(); ++station) {
      has_passed = has_passed || station->result == Station::Result::kPassed;
      station->result = has_passed ? Station::Result::kPassed : Station::Result::kNotReached;
    }
    const auto failed =
        std::ranges::find(way_.stations, Station::Result::kNotReached, &Station::result);
    if (failed != way_.stations.end()) {
      failed->result = Station::Result::kFailed;
    }
  }

  const Connection& connection_;
  const Trail& trail_;
  Way way_;
};

}  // namespace

const Station* Way::Failed() const {
  const auto failed = std::ranges::find(stations, Station::Result::kFailed, &Station::result);
  return failed == stations.end() ? nullptr : &*failed;
}

bool Way::Passes(What what) const {
  return std::ranges::any_of(stations, [&](const Station& each) {
    return each.what == what && each.result == Station::Result::kPassed;
  });
}

Way WayOf(const Connection& connection, const Trail& trail) {
  return Builder(connection, trail).Build();
}

}  // namespace nomad_bridge::causes
