#include "plugin/causes/in_container.h"

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/list.h"
#include "base/text.h"
#include "plugin/causes/on_node.h"
#include "plugin/link/container.h"
#include "plugin/link/frame_reader.h"
#include "plugin/link/uplink.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::causes {
namespace {

std::string FamilyText(Family family) {
  return family == Family::kIpv4 ? "IPv4" : "IPv6";
}

std::set<Family> PublishedFamilies(const state::Record& record) {
  std::set<Family> families;
  for (const portmap::DnatEntry& port : record.rules.ports) {
    families.insert(port.container_ip.family());
  }
  return families;
}

// Returns whether answers to the client, if it is known, need the default route of `family`.
bool NeedsDefaultRoute(rtnl::Socket& container, const std::optional<Ip>& client, Family family) {
  return !client ||
         (client->family() == family && container.LookUpRoute({.destination = *client}).error != 0);
}

// Returns whether no route leads beyond the networks, and no route drops such packets: such a route
// would be intended.
bool LacksDefaultRoute(rtnl::Socket& container, const std::vector<Route>& routes, Family family) {
  return !HasDefaultRoute(routes, family) &&
         container.LookUpRoute({.destination = link::InternetAddress(family)}).error == ENETUNREACH;
}

// Checks the default routes that ADD gave the container.
void LookAtDefaultRoutes(Inside& inside, const std::optional<Ip>& client, FindingList& causes) {
  const state::Record& record = inside.record;
  const rtnl::Link& link = *inside.link;
  rtnl::Socket& container = inside.net;
  const std::vector<Route> routes = container.Routes();
  for (const Family family : PublishedFamilies(record)) {
    const bool is_off = family == Family::kIpv6 && link.ipv6 && link.ipv6->disabled;
    if (is_off || !record.ipam.default_routes.Has(family) ||
        !LacksDefaultRoute(container, routes, family)) {
      continue;
    }
    const std::optional<Ip> gateway = FindGateway(record, family);
    // If the prefix length was changed, for example, the gateway is no neighbour of the container.
    const bool is_neighbour =
        gateway && container.LookUpRoute({.destination = *gateway}).error == 0;
    const std::string by = is_neighbour ? "" : Format(" dev {} onlink", ShellWord(link.name));
    causes.push_back(
        {.text = Format("no default route for {}: answers find no way back", FamilyText(family)),
         .fix = !gateway
                    ? Fix::Advice("add the default route in the container's namespace")
                    : FixByGateway(
                          record,
                          *gateway,
                          Format("{} route add default via {}{}", IpTool(family), *gateway, by)),
         .ends = NeedsDefaultRoute(container, client, family)});
  }
}

// Finds the other interface by which the container's answers from `address` leave.
std::optional<rtnl::Link> FindOtherWay(rtnl::Socket& container,
                                       const rtnl::Link& own,
                                       const Ip& address) {
  const rtnl::RouteAnswer way = container.LookUpRoute(
      {.destination = link::InternetAddress(address.family()), .source = address});
  return way.error == 0 && way.link != own.index ? container.FindLink(way.link) : std::nullopt;
}

// Finds the record of the same container's attachment with the interface `link`, if the host drops
// foreign addresses from that interface.
std::optional<state::Record> FindChecked(state::Host& host,
                                         const state::Record& record,
                                         const rtnl::Link& link) {
  const std::optional<rtnl::Link> outside =
      link.kind == "veth" && link.peer_netns ? host.net.FindLink(link.peer) : std::nullopt;
  std::optional<state::Record> other =
      outside ? host.records.FindOwner(outside->name) : std::nullopt;
  const bool is_checked = other && other->link.port.source_check && other->id != record.id &&
                          other->netns == record.netns;
  return is_checked ? other : std::nullopt;
}

}  // namespace

std::optional<std::string> FindFrameReaderNote(Inside& inside) {
  const std::optional<std::string> reader =
      inside.link ? link::FindFrameReader(inside.netns, inside.net, *inside.link) : std::nullopt;
  if (!reader) {
    return std::nullopt;
  }
  return Format("the frames of '{}' go to {}: its listeners cannot be seen from here",
                inside.link->name,
                *reader);
}

std::vector<std::string> FindRouteNotes(Inside& inside) {
  const std::vector<Route> routes = inside.net.Routes();
  std::vector<std::string> notes;
  for (const Family family : PublishedFamilies(inside.record)) {
    if (!inside.record.ipam.default_routes.Has(family) &&
        LacksDefaultRoute(inside.net, routes, family)) {
      notes.push_back(
          Format("the network gives no default route for {}: only clients that its "
                 "other routes lead to get an answer",
                 FamilyText(family)));
    }
  }
  return notes;
}

std::optional<Inside> OpenInside(const state::Record& record) {
  std::optional<netlink::Netns> netns = link::FindNetns(record);
  if (!netns) {
    return std::nullopt;
  }
  rtnl::Socket net = rtnl::Socket::In(*netns);
  std::optional<rtnl::Link> link = net.FindLink(record.id.ifname);
  if (!link) {
    std::vector<rtnl::Link> links = net.Links();
    const auto renamed = std::ranges::find(links, record.ContainerMac(), &rtnl::Link::mac);
    link = renamed == links.end() ? std::nullopt : std::optional(std::move(*renamed));
  }
  return Inside{{.netns = *std::move(netns), .net = std::move(net), .id = record.netns},
                record,
                std::move(link)};
}

Finding UnseenNamespace(const state::Record& record) {
  return {.area = Finding::Area::kContainer,
          .owner = record.id.container_id,
          .text = Format("its namespace cannot be seen at '{}'", record.netns_path),
          .fix = Fix::Advice("run this where the runtime's mounts can be seen"),
          .ends = false};
}

std::optional<Ip> FindGateway(const state::Record& record, Family family) {
  if (const std::optional<Ip> own = record.OwnGateway(family)) {
    return own;
  }
  for (const ipam::RangeSet& set : record.ipam.ranges) {
    for (const ipam::Range& range : set) {
      const bool is_its = std::ranges::any_of(
          record.ipam.addresses, [&](const Cidr& cidr) { return range.Contains(cidr.address); });
      if (is_its && range.gateway.family() == family) {
        return range.gateway;
      }
    }
  }
  return std::nullopt;
}

Fix FixByGateway(const state::Record& record, const Ip& gateway, const std::string& command) {
  const std::string inside = record.InsideFix(command);
  return record.OwnGateway(gateway.family()) == gateway
             ? Fix(inside)
             : Fix::Advice(Format("if {} is the LAN's router: {}", gateway, inside));
}

FindingList FindInContainer(Inside& inside, const std::optional<Ip>& client) {
  const state::Record& record = inside.record;
  FindingList found = link::FindInInterface(inside, inside.link, link::ExpectedBy(record));
  if (!inside.link) {
    found.front().fix = record.RuntimeFix("stop");
  } else if (!inside.link->up && !found.empty()) {
    found.resize(1);  // what else it lacks, it lacks because it is down
  } else {
    Append(found, FindBlackhole(inside.net, *inside.link, record.InsideFix("")));
    FindingList routes;
    LookAtDefaultRoutes(inside, client, routes);
    if (!routes.empty() && !FindFrameReaderNote(inside)) {
      Append(found, std::move(routes));
    }
  }
  for (Finding& finding : found) {
    finding.area = Finding::Area::kContainer;
    finding.owner = record.id.container_id;
  }
  return found;
}

FindingList FindSmallerEnd(state::Host& host, const Inside& inside) {
  const state::Record& record = inside.record;
  const std::optional<rtnl::Link>& link = inside.link;
  const std::optional<rtnl::Link> outside = link && link->kind == "veth"
                                                ? host.net.FindLink(state::HostVethName(record.id))
                                                : std::nullopt;
  if (!outside || outside->index != link->peer || outside->mtu == link->mtu) {
    return {};
  }
  const bool is_outside = outside->mtu < link->mtu;
  const rtnl::Link& smaller = is_outside ? *outside : *link;
  const rtnl::Link& larger = is_outside ? *link : *outside;
  const std::string command = Format("ip link set {} mtu {}", ShellWord(smaller.name), larger.mtu);
  return {{.area = Finding::Area::kContainer,
           .owner = record.id.container_id,
           .text = Format("the MTU of '{}' is {}, that of its other end '{}' {}: larger packets "
                          "are lost",
                          smaller.name,
                          smaller.mtu,
                          larger.name,
                          larger.mtu),
           .fix = is_outside ? command : record.InsideFix(command),
           .ends = false}};
}

Fix FixByOwnTable(const rtnl::Link& own, const state::Record& record, const Ip& address) {
  const std::optional<Ip> gateway = record.OwnGateway(address.family());
  if (!gateway) {
    return Fix::Advice(Format("let packets from {} leave by '{}' there", address, own.name));
  }
  constexpr int kFirstTable = 100;
  const int table = kFirstTable + own.index;
  const std::string tool = IpTool(address.family());
  return record.InsideFix(
      Format("sh -c '{} rule add from {} lookup {} && {} route add default via {} "
             "table {}'",
             tool,
             address,
             table,
             tool,
             *gateway,
             table));
}

FindingList FindSecondNetwork(state::Host& host, Inside& inside) {
  const state::Record& record = inside.record;
  const std::optional<rtnl::Link>& own = inside.link;
  if (!own || record.rules.ports.empty()) {
    return {};
  }
  const Ip& address = record.rules.ports.front().container_ip;
  const std::optional<rtnl::Link> way = FindOtherWay(inside.net, *own, address);
  const std::optional<state::Record> other = way ? FindChecked(host, record, *way) : std::nullopt;
  if (!other) {
    return {};
  }
  return {{.text = Format(
               "its answers from {} leave by '{}', and sourceCheck of network '{}' drops them",
               address,
               way->name,
               other->id.network),
           .fix = record.OwnGateway(address.family())
                      ? FixByOwnTable(*own, record, address)
                      : Fix::Advice(Cat("publish the port in network ", other->id.network))}};
}

}  // namespace nomad_bridge::causes
