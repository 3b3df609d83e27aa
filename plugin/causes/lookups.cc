#include "plugin/causes/lookups.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <linux/if_arp.h>
#include <netinet/in.h>

#include "base/file.h"
#include "base/list.h"
#include "base/text.h"
#include "netlink/core/sysctl.h"

namespace nomad_bridge::causes {
namespace {

using nft::TableFamily;
using Point = nft::Hook::Point;

struct Lookup {
  const rtnl::Link& link;
  Family family;
  std::optional<Ip> asked;  // nullopt: any of the link's own
  std::string port = {};    // of a bridge, by which the packets pass; empty: not known
};

// RFC 4861
constexpr std::uint8_t kSolicitation = 135;
constexpr std::uint8_t kAdvertisement = 136;

enum class What : std::uint8_t { kQuestion, kAnswer };

nft::Packet PacketOf(const Lookup& lookup, What what) {
  const bool is_question = what == What::kQuestion;
  nft::Packet packet{.family = lookup.family, .is_local = std::nullopt};
  if (lookup.family == Family::kIpv6) {
    packet.protocol = IPPROTO_ICMPV6;
    packet.icmp6_type = is_question ? kSolicitation : kAdvertisement;
  } else {
    packet.arp_operation = is_question ? ARPOP_REQUEST : ARPOP_REPLY;
    (is_question ? packet.destination : packet.source) = lookup.asked;
  }
  return packet;
}

std::string TextOf(const Lookup& lookup, What what, std::string_view moves) {
  constexpr std::array<std::array<std::string_view, 2>, 2> kWhat = {
      {{"ARP requests", "ARP replies"}, {"neighbour solicitations", "neighbour advertisements"}}};
  return Format("{} that {} by '{}'",
                kWhat.at(lookup.family == Family::kIpv4 ? 0 : 1).at(static_cast<std::size_t>(what)),
                moves,
                lookup.link.name);
}

// Conntrack does not follow them, and says so where it has seen them.
std::vector<Station> OfIp(const nft::Packet& packet, Point point) {
  Station before = {.point = point,
                    .direction = Direction::kLookup,
                    .packet = packet,
                    .last = kConntrackPriority};
  before.packet.ct_state = {.value = nft::kCtInvalid, .known = kAllStates};
  Station behind = {.point = point,
                    .direction = Direction::kLookup,
                    .packet = packet,
                    .first = kConntrackPriority + 1};
  behind.packet.ct_state = {.value = nft::kCtUntracked, .known = kAllStates};
  return {before, behind};
}

Station OfArp(const nft::Packet& packet, Point point) {
  return {.family = TableFamily::kArp,
          .point = point,
          .direction = Direction::kLookup,
          .packet = packet};
}

// ARP passes no ingress hook of inet.
std::vector<Station> ArrivingAt(const nft::Packet& packet, const std::string& device) {
  std::vector<Station> stations = AtIngress(packet, Direction::kLookup, device);
  std::erase_if(stations, [](const Station& each) {
    return each.packet.arp_operation && each.family != TableFamily::kNetdev;
  });
  return stations;
}

std::vector<Station> Coming(const Lookup& lookup, What what) {
  constexpr Direction kLookup = Direction::kLookup;
  nft::Packet packet = PacketOf(lookup, what);
  packet.iifname = lookup.port;
  std::vector<Station> stations;
  if (lookup.link.kind == "bridge") {
    if (!lookup.port.empty()) {
      stations = ArrivingAt(packet, lookup.port);
    }
    Append(stations, OnBridge(packet, {Point::kPrerouting, Point::kInput}, kLookup));
  }
  packet.iifname = lookup.link.name;
  packet.iif = lookup.link.index;
  Append(stations, ArrivingAt(packet, lookup.link.name));
  if (packet.arp_operation) {
    stations.push_back(OfArp(packet, Point::kArpInput));
  } else {
    Append(stations, OfIp(packet, Point::kPrerouting));
    Append(stations, OfIp(packet, Point::kInput));
  }
  const std::string about = TextOf(lookup, what, "come");
  for (Station& station : stations) {
    station.about = about;
  }
  return stations;
}

std::vector<Station> Leaving(const Lookup& lookup, What what) {
  constexpr Direction kLookup = Direction::kLookup;
  nft::Packet packet = PacketOf(lookup, what);
  packet.oifname = lookup.link.name;
  packet.oif = lookup.link.index;
  std::vector<Station> stations;
  if (packet.arp_operation) {
    stations.push_back(OfArp(packet, Point::kArpOutput));
  } else {
    stations = OfIp(packet, Point::kOutput);
    Append(stations, OfIp(packet, Point::kPostrouting));
  }
  stations.push_back(AtEgress(packet, kLookup, lookup.link.name));
  if (lookup.link.kind == "bridge") {
    packet.oifname = lookup.port;
    packet.oif = 0;
    Append(stations, OnBridge(packet, {Point::kOutput, Point::kPostrouting}, kLookup));
    if (!lookup.port.empty()) {
      stations.push_back(AtEgress(packet, kLookup, lookup.port));
    }
  }
  const std::string about = TextOf(lookup, what, "leave");
  for (Station& station : stations) {
    station.about = about;
  }
  return stations;
}

std::vector<Station> Asking(const Lookup& lookup) {
  std::vector<Station> stations = Leaving(lookup, What::kQuestion);
  Append(stations, Coming(lookup, What::kAnswer));
  return stations;
}

std::vector<Station> BeingAsked(const Lookup& lookup) {
  std::vector<Station> stations = Coming(lookup, What::kQuestion);
  Append(stations, Leaving(lookup, What::kAnswer));
  return stations;
}

bool IsPermanent(const std::optional<rtnl::Neighbour>& neighbour) {
  return neighbour && neighbour->permanent;
}

// Whose other end is the whole network, so that their drivers set the flag.
bool IsModem(const rtnl::Link& hardware) {
  const std::string type = "DEVTYPE=wwan";
  return FindFile(Format("/sys/class/net/{}/uevent", hardware.name)).value_or(type).find(type) !=
         std::string::npos;
}

// Others have no ARP by nature, such as dummies and VRFs.
bool IsOfEthernet(const rtnl::Link& link) {
  constexpr std::array<std::string_view, 7> kKinds = {
      "bridge", "veth", "vlan", "bond", "team", "macvlan", "macvtap"};
  return link.kind.empty() ? !IsModem(link) : Contains(kKinds, std::string_view(link.kind));
}

}  // namespace

// A node without a network of its own there is reached by others' routes.
std::vector<Station> LookupsOnUplink(NodeFacts& facts, const Journey& journey) {
  const rtnl::Link& uplink = *journey.uplink;
  const Family family = journey.family();
  const std::optional<Ip>& next = journey.next_hop;
  if (!uplink.resolves || (next && IsPermanent(facts.FindNeighbour(uplink, *next)))) {
    return {};
  }
  const auto has_network = [&](const Cidr& own) {
    return own.address.family() == family && !own.address.IsLinkLocal() &&
           own.prefix_length < own.address.bits();
  };
  std::vector<Station> stations;
  if (std::ranges::any_of(facts.Addresses(uplink), has_network)) {
    stations = BeingAsked({.link = uplink, .family = family, .asked = std::nullopt});
  }
  if (next) {
    Append(stations, Asking({.link = uplink, .family = family, .asked = next}));
  }
  return stations;
}

std::vector<Station> LookupsOnGateway(NodeFacts& facts,
                                      const Journey& journey,
                                      const rtnl::Link& gateway,
                                      const std::string& port) {
  const std::optional<Ip> own = OwnGateway(*journey.record, journey.family());
  if (!own || !gateway.resolves) {
    return {};
  }
  const Ip& address = journey.port.container_ip;
  Lookup lookup = {.link = gateway, .family = journey.family(), .asked = own, .port = port};
  std::vector<Station> stations = BeingAsked(lookup);
  if (!IsPermanent(facts.FindNeighbour(gateway, address))) {
    lookup.asked = address;
    Append(stations, Asking(lookup));
  }
  return stations;
}

std::vector<Station> LookupsInside(rtnl::Socket& container,
                                   const Journey& journey,
                                   const rtnl::Link& own) {
  const std::optional<Ip> gateway = OwnGateway(*journey.record, journey.family());
  if (!gateway || !own.resolves) {
    return {};
  }
  Lookup lookup = {
      .link = own, .family = journey.family(), .asked = journey.port.container_ip, .port = {}};
  std::vector<Station> stations = BeingAsked(lookup);
  if (!IsPermanent(container.FindNeighbour(own, *gateway))) {
    lookup.asked = gateway;
    Append(stations, Asking(lookup));
  }
  return stations;
}

Causes FindArpOff(rtnl::Socket& net,
                  const rtnl::Link& link,
                  const std::optional<Ip>& next,
                  const std::string& prefix) {
  if (!link.no_arp || !next || !IsOfEthernet(link) || IsPermanent(net.FindNeighbour(link, *next))) {
    return {};
  }
  return {{.text = Format("'{}' finds no neighbours, and is found by none: NOARP is set on it",
                          link.name),
           .fix = Format("{}ip link set {} arp on", prefix, ShellWord(link.name))}};
}

Causes FindArpIgnored(const rtnl::Link& link, long of_all, const std::string& prefix) {
  constexpr int kAnswersNobody = 8;  // ip-sysctl.rst; the greater one of both counts
  Causes causes;
  const auto look = [&](long value, const std::string& setting) {
    if (value == kAnswersNobody) {
      causes.push_back(
          {.text = Format(
               "{} is {}: who asks for an address there gets no answer", setting, kAnswersNobody),
           .fix = Format("{}sysctl -w {}", prefix, ShellWord(Cat(setting, "=0")))});
    }
  };
  if (link.resolves && link.ipv4) {
    look(of_all, netlink::Ipv4Setting("all", "arp_ignore"));
    look(link.ipv4->arp_ignore, netlink::Ipv4Setting(link.name, "arp_ignore"));
  }
  return causes;
}

}  // namespace nomad_bridge::causes
