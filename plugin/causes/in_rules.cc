#include <algorithm>
#include <array>
#include <limits>

#include "base/list.h"
#include "base/text.h"
#include "firewall/foreign_drops.h"
#include "firewall/table.h"
#include "plugin/causes/journey.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::causes {
namespace {

using nft::Effect;
using nft::TableFamily;
using Point = nft::Hook::Point;
using TableChain = nft::Socket::TableChain;

// The numbers of conntrack's bits. linux/netfilter/nf_conntrack_common.h
constexpr std::uint32_t kDnatBit = 1U << 5U;
constexpr std::uint32_t kAllStates = 0x7f;
constexpr std::int32_t kOurPriority = -1;  // of chain forward
constexpr std::int32_t kConntrackPriority = -200;
constexpr std::uint8_t kSyn = 0x02;
constexpr std::uint8_t kAck = 0x10;

enum class Direction : std::uint8_t { kRequest, kAnswer };

// One packet at one hook.
struct Station {
  TableFamily family = TableFamily::kAny;  // kAny: ip or ip6, and inet
  Point point = Point::kPrerouting;
  Direction direction = Direction::kRequest;
  nft::Packet packet;
  std::string device = {};                            // of the netdev family
  std::optional<int> accept_mark_bit = std::nullopt;  // behind our chain, which has set it
  // The priorities of chains that see it so.
  std::int32_t first = std::numeric_limits<std::int32_t>::min();
  std::int32_t last = std::numeric_limits<std::int32_t>::max();
};

bool IsIptables(const nft::TableId& table) {
  constexpr std::array<std::string_view, 5> kTables = {
      "filter", "nat", "mangle", "raw", "security"};
  return (table.family == TableFamily::kIp || table.family == TableFamily::kIp6) &&
         Contains(kTables, table.name);
}

// Of a client, as the kernel chooses it for itself.
constexpr std::uint16_t kClientPort = 49152;

std::optional<std::uint16_t> PublishedPort(std::optional<std::uint16_t> port) {
  return port == kClientPort ? std::nullopt : port;
}

// The ends of the packet, as iptables or nft matches them.
std::string MatchText(const nft::Packet& packet, const Journey& journey, bool for_iptables) {
  const bool is_ipv4 = journey.family() == Family::kIpv4;
  const auto part = [&](const auto& value, std::string_view iptables, std::string_view nft) {
    return value ? Format("{}{} ", for_iptables ? iptables : nft, *value) : std::string();
  };
  const std::string_view ip = is_ipv4 ? "ip " : "ip6 ";
  const std::string protocol = journey.Protocol();
  std::string text = part(packet.source, "-s ", Cat(ip, "saddr ")) +
                     part(packet.destination, "-d ", Cat(ip, "daddr "));
  if (for_iptables) {
    text += Format("-p {} ", protocol);
  }
  return text + part(PublishedPort(packet.source_port), "--sport ", Cat(protocol, " sport ")) +
         part(PublishedPort(packet.destination_port), "--dport ", Cat(protocol, " dport "));
}

// Before the rule, in the same chain: a verdict there ends the base chain.
std::string FixOf(const Effect& effect, const Station& station, const Journey& journey) {
  const bool is_iptables = IsIptables(effect.table);
  const std::string match = MatchText(station.packet, journey, is_iptables);
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

std::string DoesText(const Effect& effect, Direction direction) {
  const std::string_view what =
      direction == Direction::kRequest ? "what comes for the port" : "what the port answers";
  const std::string_view does = effect.kind == Effect::Kind::kDropped      ? "drops"
                                : effect.kind == Effect::Kind::kTranslated ? "redirects"
                                                                           : "does not track";
  return Format("{} {}", does, what);
}

Cause Describe(const Effect& effect,
               std::string_view place,
               const Station& station,
               const Journey& journey) {
  const std::string rule = effect.handle == 0 ? std::string("policy drop")
                                              : Format("rule with handle {}", effect.handle);
  return {.text = Format("{}, chain {} of table {} ({}) {}",
                         place,
                         effect.chain,
                         nft::Text(effect.table),
                         rule,
                         DoesText(effect, station.direction)),
          .fix = FixOf(effect, station, journey)};
}

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

// To the port of the node.
nft::Packet Arriving(const Journey& journey) {
  nft::Packet packet = PacketOf(journey, nft::kCtNew, kSyn);
  packet.source = journey.is_client_named ? journey.client : std::nullopt;
  packet.source_port = kClientPort;
  packet.destination = journey.node;
  packet.destination_port = journey.port.host_port;
  packet.ct_status.value = 0;
  packet.is_local = true;
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
  packet.oifname = out.name;
  packet.oif = out.index;
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

std::vector<Station> Prerouting(const nft::Packet& packet, Direction direction) {
  return {{.direction = direction, .packet = BeforeConntrack(packet), .last = kConntrackPriority},
          {.direction = direction, .packet = packet, .first = kConntrackPriority + 1}};
}

std::vector<Station> Forward(const nft::Packet& packet,
                             const state::Record& record,
                             Direction direction) {
  return {{.point = Point::kForward,
           .direction = direction,
           .packet = Marked(packet, record, false),
           .last = kOurPriority - 1},
          {.point = Point::kForward,
           .direction = direction,
           .packet = Marked(packet, record, true),
           .accept_mark_bit = record.rules.forward_hook.accept_mark_bit,
           .first = kOurPriority}};
}

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

Station AtDevice(const nft::Packet& packet, Direction direction, const std::string& device) {
  return {.family = TableFamily::kNetdev,
          .point = Point::kIngress,
          .direction = direction,
          .packet = WithoutConntrack(packet),
          .device = device};
}

// The one called `name`; only that name if there is none.
rtnl::Link LinkCalled(rtnl::Socket& net, const std::string& name) {
  return (name.empty() ? std::nullopt : net.FindLink(name)).value_or(rtnl::Link{.name = name});
}

std::vector<Station> StationsOnNode(rtnl::Socket& net,
                                    const state::Record& record,
                                    const Journey& journey) {
  constexpr Direction kRequest = Direction::kRequest;
  constexpr Direction kAnswer = Direction::kAnswer;
  const rtnl::Link bridge = LinkCalled(net, record.link.gateway_ifname);
  const rtnl::Link veth = LinkCalled(net, state::HostVethName(record.id));
  std::vector<Station> stations;
  if (journey.uplink) {
    const nft::Packet arriving = Through(Arriving(journey), *journey.uplink, kNone);
    stations = {AtDevice(arriving, kRequest, journey.uplink->name)};
    Append(stations, Prerouting(arriving, kRequest));
    Append(stations,
           Forward(Through(Translated(journey), *journey.uplink, bridge), record, kRequest));
  }
  stations.push_back(
      {.point = Point::kPostrouting, .packet = Through(Translated(journey), kNone, bridge)});
  Append(stations,
         OnBridge(Through(Translated(journey), kNone, veth),
                  {Point::kOutput, Point::kPostrouting},
                  kRequest));
  const nft::Packet answer = Through(Answer(journey), veth, kNone);
  stations.push_back(AtDevice(answer, kAnswer, veth.name));
  Append(stations, OnBridge(answer, {Point::kPrerouting, Point::kInput}, kAnswer));
  Append(stations, Prerouting(Through(answer, bridge, kNone), kAnswer));
  if (journey.uplink) {
    const nft::Packet leaving = Through(answer, bridge, *journey.uplink);
    Append(stations, Forward(leaving, record, kAnswer));
    stations.push_back({.point = Point::kPostrouting,
                        .direction = kAnswer,
                        .packet = Through(leaving, kNone, *journey.uplink)});
  }
  return stations;
}

std::vector<Station> StationsInContainer(rtnl::Socket& net,
                                         const state::Record& record,
                                         const Journey& journey) {
  const rtnl::Link own = LinkCalled(net, record.id.ifname);
  nft::Packet request = Through(Translated(journey), own, kNone);
  request.ct_status.value = 0;  // of the container's own conntrack
  request.is_local = true;
  nft::Packet answer = Through(Answer(journey), kNone, own);
  answer.ct_status.value = 0;
  std::vector<Station> stations = {AtDevice(request, Direction::kRequest, own.name)};
  Append(stations, Prerouting(request, Direction::kRequest));
  stations.push_back({.point = Point::kInput, .packet = request});
  for (const Point point : {Point::kOutput, Point::kPostrouting}) {
    stations.push_back({.point = point, .direction = Direction::kAnswer, .packet = answer});
  }
  return stations;
}

// Whether what was asked for gets no further. What translates the destination behind ours does not
// see the packet; a table that was made earlier has its chains before ours of the same priority.
bool Ends(nft::Ruleset& rules, const Effect& effect, const Station& station) {
  constexpr std::int32_t kOurDnatPriority = -100;
  if (!effect.is_certain || effect.kind == Effect::Kind::kDropped) {
    return effect.is_certain;
  }
  if (station.point != Point::kPrerouting || station.family != TableFamily::kAny) {
    return false;
  }
  const std::int32_t priority = effect.base.hook->priority;
  return effect.kind == Effect::Kind::kUntracked ||
         (station.direction == Direction::kRequest &&
          (priority < kOurDnatPriority ||
           (priority == kOurDnatPriority && rules.IsOlder(effect.table, firewall::TableId()))));
}

// The first thing on the way that ends it; what is behind that is not known.
Causes FindFirst(nft::Ruleset& rules,
                 std::vector<Station> stations,
                 std::string_view place,
                 const Journey& journey) {
  for (Station& station : stations) {
    const auto concerns = [&](const TableChain& base) {
      const nft::Hook& hook = *base.chain.hook;
      return base.table.name != firewall::TableId().name && hook.priority >= station.first &&
             hook.priority <= station.last &&
             (station.device.empty() || Contains(hook.devices, station.device));
    };
    const std::optional<TableFamily> family =
        station.family == TableFamily::kAny ? std::nullopt : std::optional(station.family);
    for (const Effect& effect : rules.Follow(station.packet, station.point, concerns, family)) {
      if (Ends(rules, effect, station)) {
        return {Describe(effect, place, station, journey)};
      }
    }
  }
  return {};
}

}  // namespace

Causes FindInRules(state::Host& host,
                   nft::Ruleset& rules,
                   const state::Record& record,
                   const Journey& journey) {
  return FindFirst(rules, StationsOnNode(host.net, record, journey), "on the node", journey);
}

Causes FindInContainerRules(rtnl::Socket& container,
                            nft::Ruleset& rules,
                            const state::Record& record,
                            const Journey& journey) {
  Causes causes = FindFirst(
      rules, StationsInContainer(container, record, journey), "in the container", journey);
  for (Cause& cause : causes) {
    cause.fix = InsideFix(record, cause.fix);
  }
  return causes;
}

}  // namespace nomad_bridge::causes
