#include "plugin/causes/stations.h"

#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "plugin/causes/in_container.h"
#include "plugin/causes/lookups.h"
#include "plugin/link/bridge.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::causes {
namespace {

using nft::TableFamily;
using Point = nft::Hook::Point;

// The numbers of conntrack's bits. linux/netfilter/nf_conntrack_common.h
constexpr std::uint32_t kDnatBit = 1U << 5U;
constexpr std::int32_t kOurPriority = -1;  // of chain forward
constexpr std::int32_t kDnatPriority = -100;
constexpr std::int32_t kSnatPriority = 100;
constexpr std::uint8_t kSyn = 0x02;
constexpr std::uint8_t kAck = 0x10;

std::uint8_t NumberOf(portmap::Protocol protocol) {
  return static_cast<std::uint8_t>(protocol);
}

// ---- packets

nft::Packet PacketOf(const Journey& journey, std::uint32_t state, std::uint8_t tcp_flags) {
  nft::Packet packet{.family = journey.family(), .protocol = NumberOf(journey.port.protocol)};
  packet.ct_state = {.value = state, .known = kAllStates};
  packet.ct_status = {.value = kDnatBit, .known = kDnatBit};
  if (journey.port.protocol == portmap::Protocol::kTcp) {
    packet.tcp_flags = tcp_flags;
  }
  return packet;
}

// To the port of the container.
nft::Packet Translated(const Journey& journey) {
  nft::Packet packet = PacketOf(journey, nft::kCtNew, kSyn);
  packet.source = journey.is_client_named ? journey.client : std::nullopt;
  packet.source_port = kClientPort;
  packet.destination = journey.port.container_ip;
  packet.destination_port = journey.port.container_port;
  return packet;
}

// The addresses of the uplink that are asked, the first one first.
std::vector<std::optional<Ip>> NodesOf(const Journey& journey) {
  std::vector<std::optional<Ip>> nodes = {journey.node};
  nodes.insert(nodes.end(), journey.also.begin(), journey.also.end());
  return nodes;
}

// To the port of the node.
nft::Packet Arriving(const Journey& journey, const std::optional<Ip>& node) {
  nft::Packet packet = Translated(journey);
  packet.destination = node;
  packet.destination_port = journey.port.host_port;
  packet.ct_status.value = 0;
  packet.is_local = true;
  return packet;
}

nft::Packet Answer(const Journey& journey) {
  nft::Packet packet = PacketOf(journey, nft::kCtEstablished, kSyn | kAck);
  packet.source = journey.port.container_ip;
  packet.source_port = journey.port.container_port;
  packet.destination = journey.is_client_named ? journey.client : std::nullopt;
  packet.destination_port = kClientPort;
  return packet;
}

nft::Packet Through(nft::Packet packet, const rtnl::Link& in, const rtnl::Link& out) {
  packet.iifname = in.name;
  packet.iif = in.index;
  packet.iif_group = in.index == 0 ? std::nullopt : std::optional(in.group);
  packet.oifname = out.name;
  packet.oif = out.index;
  packet.oif_group = out.index == 0 ? std::nullopt : std::optional(out.group);
  return packet;
}

// Conntrack has not seen it yet, which rules are told as "invalid".
nft::Packet BeforeConntrack(nft::Packet packet) {
  packet.ct_state.value = nft::kCtInvalid;
  packet.ct_status.value = 0;
  return packet;
}

nft::Packet WithoutConntrack(nft::Packet packet) {
  packet.ct_state = {};
  packet.ct_status = {};
  return packet;
}

// By our chain forward.
nft::Packet Marked(nft::Packet packet, const state::Record& record, bool is_set) {
  const std::uint32_t bit = std::uint32_t{1} << record.rules.forward_hook.accept_mark_bit;
  packet.mark = {.value = is_set ? bit : 0, .known = bit};
  return packet;
}

// ---- the way

const rtnl::Link kNone;

// `translated`: behind our chain there.
std::vector<Station> Entering(Point point,
                              const nft::Packet& packet,
                              const nft::Packet& translated,
                              Direction direction) {
  return {{.point = point,
           .direction = direction,
           .packet = BeforeConntrack(packet),
           .last = kConntrackPriority,
           .ours = kDnatPriority},
          {.point = point,
           .direction = direction,
           .packet = packet,
           .first = kConntrackPriority + 1,
           .last = kDnatPriority,
           .ours = kDnatPriority},
          {.point = point,
           .direction = direction,
           .packet = translated,
           .first = kDnatPriority,
           .ours = kDnatPriority}};
}

std::vector<Station> Prerouting(const nft::Packet& packet,
                                const nft::Packet& translated,
                                Direction direction) {
  return Entering(Point::kPrerouting, packet, translated, direction);
}

// Our rules know the bridge by its name: what comes by one that was renamed gets no mark.
std::vector<Station> Forward(const nft::Packet& packet,
                             const state::Record& record,
                             Direction direction) {
  const bool is_marked =
      direction != Direction::kAnswer || packet.iifname == record.link.gateway_ifname;
  return {{.point = Point::kForward,
           .direction = direction,
           .packet = Marked(packet, record, false),
           .last = kOurPriority,
           .ours = kOurPriority},
          {.point = Point::kForward,
           .direction = direction,
           .packet = Marked(packet, record, is_marked),
           .accept_mark_bit = record.rules.forward_hook.accept_mark_bit,
           .first = kOurPriority,
           .ours = kOurPriority}};
}

}  // namespace

std::vector<Station> OnBridge(const nft::Packet& packet,
                              std::initializer_list<Point> points,
                              Direction direction) {
  std::vector<Station> stations;
  for (const Point point : points) {
    stations.push_back({.family = TableFamily::kBridge,
                        .point = point,
                        .direction = direction,
                        .packet = WithoutConntrack(packet)});
  }
  return stations;
}

std::vector<Station> AtIngress(const nft::Packet& packet,
                               Direction direction,
                               const std::string& device) {
  const Station station = {.family = TableFamily::kNetdev,
                           .point = Point::kIngress,
                           .direction = direction,
                           .packet = WithoutConntrack(packet),
                           .device = device};
  Station of_inet = station;
  of_inet.family = TableFamily::kInet;
  of_inet.point = Point::kInetIngress;
  return {station, of_inet};
}

Station AtEgress(const nft::Packet& packet, Direction direction, const std::string& device) {
  return {.family = TableFamily::kNetdev,
          .point = Point::kEgress,
          .direction = direction,
          .packet = WithoutConntrack(packet),
          .device = device};
}

namespace {

// Behind postrouting's translations the answer comes from the port of the node.
std::vector<Station> Leaving(const nft::Packet& answer, const Journey& journey) {
  std::vector<Station> stations = {{.point = Point::kPostrouting,
                                    .direction = Direction::kAnswer,
                                    .packet = answer,
                                    .last = kSnatPriority,
                                    .ours = kSnatPriority}};
  for (const std::optional<Ip>& node : NodesOf(journey)) {
    nft::Packet published = answer;
    published.source = node;
    published.source_port = journey.port.host_port;
    stations.push_back({.point = Point::kPostrouting,
                        .direction = Direction::kAnswer,
                        .packet = published,
                        .first = kSnatPriority,
                        .ours = kSnatPriority});
    stations.push_back(AtEgress(published, Direction::kAnswer, journey.uplink->name));
  }
  return stations;
}

// The one called `name`; only that name if there is none.
rtnl::Link LinkCalled(NodeFacts& facts, const std::string& name) {
  return (name.empty() ? std::nullopt : facts.FindLink(name)).value_or(rtnl::Link{.name = name});
}

// By which what is for the container, whose host end is `veth`, leaves the node.
rtnl::Link GatewayOf(NodeFacts& facts,
                     const state::Record& record,
                     const rtnl::Link& veth,
                     BridgeName name) {
  rtnl::Link gateway = LinkCalled(facts, record.link.gateway_ifname);
  if (gateway.index == 0 && gateway.name == record.link.bridge) {
    gateway = facts.FindLink(veth.master).value_or(gateway);
  }
  if (name == BridgeName::kRecorded) {
    gateway.name = record.link.gateway_ifname;
  }
  return gateway;
}

}  // namespace

std::vector<Station> StationsOnNode(NodeFacts& facts, const Journey& journey, BridgeName name) {
  const state::Record& record = *journey.record;
  constexpr Direction kRequest = Direction::kRequest;
  constexpr Direction kAnswer = Direction::kAnswer;
  const rtnl::Link veth = LinkCalled(facts, state::HostVethName(record.id));
  const rtnl::Link bridge = GatewayOf(facts, record, veth, name);
  std::vector<Station> stations;
  constexpr std::size_t kUsual = 64;  // not moved each time that some are added
  stations.reserve(kUsual);
  const nft::Packet translated = Translated(journey);
  if (journey.uplink) {
    Append(stations, LookupsOnUplink(facts, journey));
    for (const std::optional<Ip>& node : NodesOf(journey)) {
      const nft::Packet arriving = Through(Arriving(journey, node), *journey.uplink, kNone);
      Append(stations, AtIngress(arriving, kRequest, journey.uplink->name));
      Append(stations, Prerouting(arriving, Through(translated, *journey.uplink, kNone), kRequest));
    }
    Append(stations, Forward(Through(translated, *journey.uplink, bridge), record, kRequest));
  }
  Append(stations, LookupsOnGateway(facts, journey, bridge, veth.name));
  const nft::Packet entering = Through(translated, kNone, bridge);
  stations.push_back({.point = Point::kPostrouting, .packet = entering});
  stations.push_back(AtEgress(entering, kRequest, bridge.name));
  const nft::Packet delivered = Through(translated, kNone, veth);
  Append(stations, OnBridge(delivered, {Point::kOutput, Point::kPostrouting}, kRequest));
  stations.push_back(AtEgress(delivered, kRequest, veth.name));
  const nft::Packet answer = Through(Answer(journey), veth, kNone);
  Append(stations, AtIngress(answer, kAnswer, veth.name));
  Append(stations, OnBridge(answer, {Point::kPrerouting, Point::kInput}, kAnswer));
  const nft::Packet from_bridge = Through(answer, bridge, kNone);
  Append(stations, AtIngress(from_bridge, kAnswer, bridge.name));
  Append(stations, Prerouting(from_bridge, from_bridge, kAnswer));
  if (journey.uplink) {
    const nft::Packet leaving = Through(answer, bridge, *journey.uplink);
    Append(stations, Forward(leaving, record, kAnswer));
    Append(stations, Leaving(Through(leaving, kNone, *journey.uplink), journey));
    if (journey.uplink->index == bridge.index && journey.is_client_named) {
      Append(stations, OnBridge(delivered, {Point::kForward}, Direction::kFromLan));
      Append(stations, OnBridge(answer, {Point::kForward}, kAnswer));
    }
    if (journey.uplink->index == bridge.index && link::PassesIpChains(bridge, journey.family())) {
      nft::Packet bridged = Through(translated, bridge, bridge);
      bridged.ct_status.value = 0;
      stations.push_back({.point = Point::kForward,
                          .direction = Direction::kFromLan,
                          .packet = Marked(bridged, record, false)});
    }
  }
  return stations;
}

std::vector<Station> StationsBeside(NodeFacts& facts, const Journey& journey) {
  const state::Record& record = *journey.record;
  const rtnl::Link bridge = LinkCalled(facts, record.link.bridge);
  if (journey.is_client_named || bridge.index == 0) {
    return {};
  }
  const rtnl::Link veth = LinkCalled(facts, state::HostVethName(record.id));
  const auto between = [&](const nft::Packet& packet, std::string_view does) {
    std::vector<Station> stations = OnBridge(packet, {Point::kForward}, Direction::kBeside);
    stations.front().about = Format("what its neighbours on '{}' {} it", bridge.name, does);
    return stations;
  };
  std::vector<Station> stations = between(Through(Translated(journey), kNone, veth), "send to");
  Append(stations, between(Through(Answer(journey), veth, kNone), "get from"));
  if (journey.uplink && journey.uplink->index != bridge.index) {
    nft::Packet leaving{.family = journey.family(), .source = journey.port.container_ip};
    leaving.ct_state = {.value = nft::kCtNew, .known = kAllStates};
    stations.push_back({.point = Point::kPostrouting,
                        .direction = Direction::kBeside,
                        .packet = Through(leaving, kNone, *journey.uplink),
                        .about = "what it sends out",
                        .last = kSnatPriority,
                        .ours = kSnatPriority});
  }
  return stations;
}

std::vector<Station> StationsOfOwn(NodeFacts& facts, const Journey& journey) {
  const state::Record& record = *journey.record;
  nft::Packet translated = Translated(journey);
  translated.source = std::nullopt;
  nft::Packet asked = translated;
  asked.destination = journey.node;
  asked.destination_port = journey.port.host_port;
  asked.ct_status.value = 0;
  asked.is_local = true;
  std::vector<Station> stations = Entering(Point::kOutput, asked, translated, Direction::kFromNode);
  const rtnl::Link veth = LinkCalled(facts, state::HostVethName(record.id));
  const rtnl::Link bridge = GatewayOf(facts, record, veth, BridgeName::kRecorded);
  const nft::Packet answer = Through(Answer(journey), bridge, kNone);
  stations.push_back(Prerouting(answer, answer, Direction::kAnswer).front());
  return stations;
}

std::vector<Station> StationsInContainer(Interior& inside, const Journey& journey) {
  const rtnl::Link own = inside.link.value_or(rtnl::Link{.name = inside.record.id.ifname});
  nft::Packet request = Through(Translated(journey), own, kNone);
  request.ct_status.value = 0;  // of the container's own conntrack
  request.is_local = true;
  nft::Packet answer = Through(Answer(journey), kNone, own);
  answer.ct_status.value = 0;
  std::vector<Station> stations = LookupsInside(inside.net, journey, own);
  Append(stations, AtIngress(request, Direction::kRequest, own.name));
  Append(stations, Prerouting(request, request, Direction::kRequest));
  stations.push_back({.point = Point::kInput, .packet = request});
  for (const Point point : {Point::kOutput, Point::kPostrouting}) {
    stations.push_back({.point = point, .direction = Direction::kAnswer, .packet = answer});
  }
  stations.push_back(AtEgress(answer, Direction::kAnswer, own.name));
  return stations;
}

}  // namespace nomad_bridge::causes
