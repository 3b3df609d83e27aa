#include "plugin/causes/trace.h"

#include <algorithm>
#include <set>
#include <utility>

#include <linux/if_ether.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include "base/text.h"
#include "netlink/probe/observer.h"
#include "plugin/causes/on_node.h"
#include "plugin/causes/trail.h"

namespace nomad_bridge::causes {
namespace {

using probe::PacketKind;
using probe::Sighting;
using Point = nft::Hook::Point;

// A client repeats its request after 1 and after 3 seconds, so within this time a slow client or
// service has shown itself.
constexpr std::chrono::seconds kPatience{4};

// Returns rules that match the packets for the port, and the answers.
std::vector<nft::Rule> RulesFor(const Connection& connection) {
  const auto protocol = static_cast<std::uint8_t>(connection.protocol);
  const std::uint16_t type = connection.family() == Family::kIpv4 ? ETH_P_IP : ETH_P_IPV6;
  const Cidr client = Cidr::Host(connection.source);
  nft::Rule request;
  request.Protocol(type).L4Proto(protocol).Saddr(client).Dport(connection.port);
  nft::Rule answer;
  answer.Protocol(type)
      .L4Proto(protocol)
      .Saddr(Cidr::Host(connection.server))
      .Daddr(client)
      .Sport(connection.server_port);
  return {request, answer};
}

std::string VerdictText(const nft::Verdict& verdict) {
  switch (verdict.code) {
    case nft::Verdict::Code::kDrop:
      return "drop";
    case nft::Verdict::Code::kAccept:
      return "accept";
    case nft::Verdict::Code::kJump:
      return Cat("jump ", verdict.chain);
    case nft::Verdict::Code::kGoto:
      return Cat("goto ", verdict.chain);
    case nft::Verdict::Code::kReturn:
      return "return";
    default:
      return "continue";
  }
}

std::string LineOf(const nft::TraceStep& step) {
  return Format(
      "{}, chain {}, {}: {}",
      nft::Text(step.table),
      step.chain,
      step.handle == 0 ? std::string("policy") : Format("rule with handle {}", step.handle),
      VerdictText(step.verdict));
}

// A connection, from its first packet on, recognized by the client's port. The trail has what the
// kernel did with the first packet of each direction.
class Followed {
 public:
  explicit Followed(const Connection& connection) : connection_(connection) {}

  void Take(const Sighting& sighting) {
    if (client_port_ == 0 && sighting.DestinationPort() == connection_.port && IsFirst(sighting)) {
      client_port_ = sighting.SourcePort();
    }
    if (client_port_ == 0) {
      return;
    }
    const bool is_request = sighting.SourcePort() == client_port_;
    if (is_request) {
      is_confirmed_ = is_confirmed_ || (IsSeen(PacketKind::kAnswer) && IsConfirmation(sighting));
    } else if (sighting.DestinationPort() != client_port_) {
      return;
    }
    Add(sighting, is_request ? PacketKind::kRequest : PacketKind::kAnswer);
  }

  [[nodiscard]] bool HasBegun() const { return client_port_ != 0; }
  [[nodiscard]] bool IsComplete() const {
    return IsDropped() || is_confirmed_ ||
           (HasPassed(PacketKind::kAnswer) && (trail_.IsRefused() || !IsTcp()));
  }

  // Returns the request at the end of the rules before the routing decision, if it was lost there.
  [[nodiscard]] const Seen* FindUnrouted() const {
    const Seen* const last = trail_.LastMarker();
    return last != nullptr && IsLost(PacketKind::kRequest) && last->marker->is_end &&
                   last->marker->point == Point::kPrerouting
               ? last
               : nullptr;
  }

  [[nodiscard]] Traced Result() const {
    Traced traced;
    for (const Seen& seen : trail_.steps) {
      if (!seen.marker) {
        traced.lines.push_back(
            Cat(seen.packet == PacketKind::kAnswer ? "answer: " : "", LineOf(seen.step)));
      }
    }
    if (!HasBegun()) {
      return traced;
    }
    const bool is_answered = is_confirmed_ || (!IsTcp() && HasPassed(PacketKind::kRequest));
    if (is_answered && !IsDropped() && !IsLost(PacketKind::kAnswer)) {
      traced.outcome = Traced::Outcome::kAnswered;
      return traced;
    }
    traced.outcome = Traced::Outcome::kUnanswered;
    if (!IsDropped()) {
      traced.lines.push_back(WhyNot());
    }
    return traced;
  }

 private:
  [[nodiscard]] bool IsTcp() const { return connection_.protocol == Protocol::kTcp; }
  [[nodiscard]] bool IsDropped() const { return trail_.Drop() != nullptr; }
  [[nodiscard]] bool IsFirst(const Sighting& sighting) const {
    return !IsTcp() || (sighting.TcpFlags() & (TH_SYN | TH_ACK)) == TH_SYN;
  }
  [[nodiscard]] bool IsConfirmation(const Sighting& sighting) const {
    return IsTcp() && (sighting.TcpFlags() & (TH_SYN | TH_ACK | TH_RST)) == TH_ACK;
  }

  [[nodiscard]] bool IsSeen(PacketKind packet) const {
    return std::ranges::any_of(
        trail_.steps, [&](const Seen& each) { return each.marker && each.packet == packet; });
  }
  // Returns whether all rules of the node's IP hooks have let it through.
  [[nodiscard]] bool HasPassed(PacketKind packet) const {
    return trail_.Find({.packet = packet, .point = Point::kInput, .is_end = true}) != nullptr ||
           trail_.Find({.packet = packet, .point = Point::kPostrouting, .is_end = true}) != nullptr;
  }
  [[nodiscard]] bool IsLost(PacketKind packet) const {
    return IsSeen(packet) && !IsDropped() && !HasPassed(packet);
  }

  // Leaves out the rules that a second packet of the direction meets.
  void Add(const Sighting& sighting, PacketKind packet) {
    const auto is_here = [&](const Seen& each) {
      return each.packet == packet && each.marker == sighting.marker;
    };
    if (sighting.marker && std::ranges::any_of(trail_.steps, is_here)) {
      repeated_.insert(packet);
    }
    if (sighting.marker || (!IsDropped() && !repeated_.contains(packet))) {
      Seen seen;
      static_cast<Sighting&>(seen) = sighting;
      seen.packet = packet;
      trail_.steps.push_back(std::move(seen));
    }
  }

  // Returns a reason why there is no answer, if no rule shows one.
  [[nodiscard]] std::string WhyNot() const {
    constexpr std::string_view kNoRule =
        "gets no further, and no rule that is seen says so: a queue without a program, "
        "iptables-legacy, or a route";
    if (IsLost(PacketKind::kRequest)) {
      return Cat("it ", kNoRule);
    }
    if (!IsSeen(PacketKind::kAnswer)) {
      return Format("in {} seconds nothing has come back from the container", kPatience.count());
    }
    if (IsLost(PacketKind::kAnswer)) {
      return Cat("answer: it ", kNoRule);
    }
    return trail_.IsRefused()
               ? "answer: it refuses"
               : Format("answer: in {} seconds the client has not confirmed it{}",
                        kPatience.count(),
                        repeated_.contains(PacketKind::kRequest) ? ", and has asked again" : "");
  }

  const Connection& connection_;
  std::uint16_t client_port_ = 0;
  bool is_confirmed_ = false;
  std::set<PacketKind> repeated_;  // directions of which another packet has followed
  Trail trail_;
};

// Returns why the kernel has no route for the packet `seen`; empty if it has one now.
std::string WhyUnrouted(rtnl::Socket& net, const Connection& connection, const Seen& seen) {
  const std::optional<rtnl::Link> input = net.FindLink(seen.step.input_link);
  const Ip source = seen.Source().value_or(connection.source);
  const Ip destination = seen.Destination().value_or(connection.server);
  if (!input) {
    return {};
  }
  const rtnl::RouteAnswer way = net.LookUpRoute(
      {.destination = destination,
       .source = source,
       .flow = rtnl::Flow{.protocol = static_cast<std::uint8_t>(connection.protocol),
                          .source_port = seen.SourcePort(),
                          .destination_port = seen.DestinationPort()},
       .input_link = input->index,
       .mark = seen.step.mark});
  if (IsByReversePath(net, way, *input, source)) {
    return StrictReversePath(*input, source.Text()).TextWithFix();
  }
  return way.error == 0 ? std::string()
                        : Format("packets that arrive on '{}' for {} are lost: {}",
                                 input->name,
                                 destination,
                                 ErrorText(way));
}

// Returns false at the deadline.
bool AwaitEvents(const probe::Observer& observer, Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  pollfd waiting{.fd = observer.fd(), .events = POLLIN, .revents = 0};
  return left.count() > 0 && ::poll(&waiting, 1, static_cast<int>(left.count())) > 0;
}

}  // namespace

Traced TraceClient(state::Host& host, const Connection& connection, Deadline deadline) {
  // This number becomes part of the names of the tables.
  const auto number = static_cast<std::uint32_t>(::getpid());
  probe::Observer observer = probe::Observer::Start(
      host.netns, {.flow = {.token = number}, .others = RulesFor(connection)});
  Followed followed(connection);
  while (!followed.IsComplete() && AwaitEvents(observer, deadline)) {
    const bool had_begun = followed.HasBegun();
    std::vector<Sighting> sightings;
    observer.Take(sightings);
    for (const Sighting& sighting : sightings) {
      followed.Take(sighting);
    }
    if (followed.HasBegun() && !had_begun) {
      deadline = FromNow(kPatience);
    }
  }
  Traced traced = followed.Result();
  if (const Seen* const lost = followed.FindUnrouted(); lost != nullptr && !traced.lines.empty()) {
    const std::string why = WhyUnrouted(host.net, connection, *lost);
    traced.lines.back() = why.empty() ? traced.lines.back() : why;
  }
  if (observer.HasLostEvents() && traced.outcome == Traced::Outcome::kUnanswered) {
    traced.outcome = Traced::Outcome::kUnknown;
  }
  return traced;
}

}  // namespace nomad_bridge::causes
