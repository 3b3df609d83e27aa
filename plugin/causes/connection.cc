#include "plugin/causes/connection.h"

#include <algorithm>
#include <set>

#include "base/list.h"
#include "base/text.h"
#include "plugin/causes/in_container.h"
#include "plugin/link/uplink.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::causes {
namespace {

constexpr std::uint16_t kClientPort = 49152;  // a port that the kernel may choose

std::optional<Cidr> GlobalAddress(NodeFacts& facts, const rtnl::Link& link, Family family) {
  for (const Cidr& cidr : facts.Addresses(link)) {
    if (cidr.address.family() == family && !cidr.address.IsLinkLocal()) {
      return cidr;
    }
  }
  return std::nullopt;
}

// Returns the address of k.root-servers.net, which is far from link::InternetAddress().
Ip AnotherBeyond(Family family) {
  return Ip::Parse(family == Family::kIpv4 ? "193.0.14.129" : "2001:7fd::1").value();
}

// Returns an uplink that qualifies. Prefers an operational link.
template <typename Qualifies>
std::optional<rtnl::Link> FindUplink(const std::vector<rtnl::Link>& uplinks,
                                     const Qualifies& qualifies) {
  std::optional<rtnl::Link> found;
  for (const rtnl::Link& link : uplinks) {
    if (qualifies(link) && (!found || (!found->operational && link.operational))) {
      found = link;
    }
  }
  return found;
}

// Returns an address of `network` that is not in `known`.
std::optional<Ip> AnotherIn(const Cidr& network, const std::set<Ip>& known) {
  constexpr std::uint64_t kMost = 8;
  const bool has_hosts = network.prefix_length < network.address.bits();
  for (std::uint64_t steps = has_hosts ? 1 : 0; steps < kMost; ++steps) {
    const Ip address = network.Network().Plus(steps);
    if (network.Contains(address) && !known.contains(address)) {
      return address;
    }
  }
  return std::nullopt;
}

// Returns an address beyond `uplink`: link::InternetAddress() if the route to it leads through the
// uplink; else another address of the uplink's own network.
std::optional<Ip> AnyoneBeyond(NodeFacts& facts, const rtnl::Link& uplink, Family family) {
  const Ip beyond = link::InternetAddress(family);
  const rtnl::RouteAnswer way = facts.host.net.LookUpRoute({.destination = beyond});
  if (way.error == 0 && way.link == uplink.index) {
    return beyond;
  }
  const std::optional<Cidr> own = GlobalAddress(facts, uplink, family);
  return own ? AnotherIn(*own, {own->address}) : std::nullopt;
}

// Returns the query for the route of requests on the node.
rtnl::RouteQuery RequestsOf(const Connection& connection) {
  return {.destination = connection.destination,
          .source = connection.source,
          .flow = rtnl::Flow{.protocol = static_cast<std::uint8_t>(connection.protocol),
                             .source_port = kClientPort,
                             .destination_port = connection.port}};
}

// Returns the route of a packet of the container of `record`. If the kernel would drop the packet,
// returns the route that the node's own packets take.
rtnl::RouteAnswer WayOf(NodeFacts& facts,
                        const std::optional<state::Record>& record,
                        rtnl::RouteQuery query) {
  const std::optional<rtnl::Link> gateway =
      record ? facts.FindLink(record->link.gateway_ifname) : std::nullopt;
  if (gateway) {
    query.input_link = gateway->index;
    rtnl::RouteAnswer way = facts.host.net.LookUpRoute(query);
    if (way.error == 0) {
      return way;
    }
  }
  return facts.host.net.LookUpRoute({.destination = query.destination, .mark = query.mark});
}

}  // namespace

std::string IpTool(Family family) {
  return family == Family::kIpv4 ? "ip" : "ip -6";
}

rtnl::RouteQuery AnswersOf(const Connection& connection, int input_link) {
  return {.destination = connection.source,
          .source = connection.server,
          .flow = rtnl::Flow{.protocol = static_cast<std::uint8_t>(connection.protocol),
                             .source_port = connection.server_port,
                             .destination_port = kClientPort},
          .input_link = input_link};
}

std::vector<std::string> HostLinksOf(const state::Record& record) {
  std::vector<std::string> names = {
      record.link.gateway_ifname, record.link.bridge, state::HostVethName(record.id)};
  Append(names, record.link.foreign_host_ifnames);
  Append(names, record.link.foreign_ports);
  return names;
}

rtnl::RouteAnswer WayBeyond(NodeFacts& facts, const Connection& connection, std::uint32_t mark) {
  const bool is_request = connection.from != Connection::Place::kBeyond;
  rtnl::RouteQuery query = is_request ? RequestsOf(connection) : AnswersOf(connection, 0);
  query.mark = mark;
  return WayOf(facts, is_request ? connection.client_record : connection.server_record, query);
}

std::string Connection::ClientText() const {
  return Cat(is_client_named ? "" : "clients beyond the node, such as ", source);
}

std::optional<rtnl::Link> Planner::AsUplink(int index) {
  const std::optional<rtnl::Link> uplink =
      FindUplink(facts_.Uplinks(), [&](const rtnl::Link& link) { return link.index == index; });
  return uplink ? uplink : facts_.FindLink(index);
}

std::optional<rtnl::Link> Planner::LinkOf(const rtnl::RouteAnswer& way) {
  return way.error != 0 || way.link == 0 || way.link == rtnl::kLoopbackIndex ? std::nullopt
                                                                             : AsUplink(way.link);
}

// The sets of our table have no addresses of a list without 'firewall'. Two networks may have the
// same address: the route decides. If it leads to none of them, it is what is wrong.
std::optional<state::Record> Planner::FindHolder(const Ip& address, const rtnl::RouteAnswer& way) {
  const std::optional<rtnl::Link> link = way.error == 0 ? facts_.FindLink(way.link) : std::nullopt;
  std::optional<state::Record> holder;
  for (state::Record& record : facts_.host.records.All()) {
    const bool is_its_link = link && Contains(HostLinksOf(record), link->name);
    if (Contains(AddressesOnly(record.ipam.addresses), address) && (is_its_link || !holder)) {
      holder = std::move(record);
      if (is_its_link) {
        break;
      }
    }
  }
  return holder;
}

std::optional<Ip> Planner::NodeAddress(const std::optional<rtnl::Link>& link, Family family) {
  const std::optional<Cidr> own = link ? GlobalAddress(facts_, *link, family) : std::nullopt;
  return own ? std::optional(own->address) : std::nullopt;
}

// Prefers the uplink that has the published address; then the uplink of the default route; then, if
// the node has lost a default route, an uplink that is down; then an uplink with a network of its
// own, which a VPN's may lack; then any uplink with an address. That an uplink is down proves
// nothing by itself: nobody may use it.
std::optional<rtnl::Link> Planner::UplinkOfAnyone(const Connection& connection,
                                                  const portmap::DnatEntry* port,
                                                  Family family) {
  std::optional<rtnl::Link> uplink;
  if (port != nullptr && port->host_ip) {
    uplink = FindUplink(facts_.Uplinks(), [&](const rtnl::Link& link) {
      return Contains(AddressesOnly(facts_.Addresses(link)), *port->host_ip);
    });
  }
  if (!uplink) {
    uplink = LinkOf(net_.LookUpRoute({.destination = link::InternetAddress(family)}));
  }
  const auto has_address = [&](const rtnl::Link& link) {
    return GlobalAddress(facts_, link, family).has_value();
  };
  const std::optional<state::Record>& server = connection.server_record;
  if (!uplink && server && server->rules.had_default_route.Has(family)) {
    uplink = FindUplink(facts_.Uplinks(),
                        [&](const rtnl::Link& link) { return !link.up && has_address(link); });
  }
  if (!uplink) {
    uplink = FindUplink(facts_.Uplinks(), [&](const rtnl::Link& link) {
      return AnyoneBeyond(facts_, link, family).has_value();
    });
  }
  if (!uplink) {
    uplink = FindUplink(facts_.Uplinks(), has_address);
  }
  return uplink;
}

// Returns an address beyond the node to which the container has a route. Takes the node's router if
// it is in the network of the route, because the router certainly exists.
std::optional<Ip> Planner::FindRouted(rtnl::Socket& container, Family family) {
  const std::optional<Ip> router =
      net_.LookUpRoute({.destination = link::InternetAddress(family)}).gateway;
  std::set<Ip> known = net_.AllAddresses();
  known.merge(container.AllAddresses());
  for (const Route& route : container.Routes()) {
    const Cidr& network = route.destination;
    const bool is_local = network.address.IsLinkLocal() || network.address.IsMulticast();
    const bool is_meant = network.address.family() == family && !is_local;
    const std::optional<Ip> client = !is_meant ? std::nullopt
                                     : router && network.Contains(*router)
                                         ? router
                                         : AnotherIn(network, known);
    const std::optional<rtnl::Link> link =
        client ? LinkOf(net_.LookUpRoute({.destination = *client})) : std::nullopt;
    if (link && FindUplink(facts_.Uplinks(),
                           [&](const rtnl::Link& each) { return each.index == link->index; })) {
      return client;
    }
  }
  return std::nullopt;
}

// If the network gives no default route, chooses a client to which its other routes lead.
void Planner::SetAnyone(Connection& connection, const portmap::DnatEntry& port) {
  const state::Record& record = *connection.server_record;
  const Family family = connection.server.family();
  const std::optional<netlink::Netns> netns =
      record.ipam.default_routes.Has(family) ? std::nullopt : link::FindNetns(record);
  std::optional<rtnl::Socket> container =
      netns ? std::optional(rtnl::Socket::In(*netns)) : std::nullopt;
  if (container &&
      container->LookUpRoute({.destination = link::InternetAddress(family)}).error != 0) {
    if (const std::optional<Ip> client = FindRouted(*container, family)) {
      SetClient(connection, *client, &port);
      connection.is_client_named = false;
    }
    return;
  }
  connection.uplink = UplinkOfAnyone(connection, &port, connection.server.family());
  const std::optional<Ip> anyone =
      connection.uplink ? AnyoneBeyond(facts_, *connection.uplink, connection.server.family())
                        : std::nullopt;
  connection.source = anyone.value_or(link::InternetAddress(connection.server.family()));
}

void Planner::SetClient(Connection& connection, const Ip& client, const portmap::DnatEntry* port) {
  connection.source = client;
  connection.is_client_named = true;
  if (const std::optional<rtnl::Link> entry =
          entry_.empty() ? std::nullopt : facts_.FindLink(entry_)) {
    connection.uplink = AsUplink(entry->master == 0 ? entry->index : entry->master);
    return;
  }
  const rtnl::RouteAnswer way = net_.LookUpRoute({.destination = client});
  if (way.is_local) {
    connection.from = Connection::Place::kNode;
  } else if ((connection.client_record = FindHolder(client, way))) {
    connection.from = Connection::Place::kAllocation;
  } else {
    // If the route to the client leads through a link without an address, the packets of the client
    // come through another link.
    connection.uplink = LinkOf(way);
    if (!NodeAddress(connection.uplink, client.family())) {
      connection.uplink = UplinkOfAnyone(connection, port, client.family());
    }
  }
}

std::optional<Connection> Planner::ToPort(const state::Record& record,
                                          const portmap::DnatEntry& port,
                                          const std::optional<Ip>& client) {
  Connection connection = {.protocol = port.protocol,
                           .port = port.host_port,
                           .server = port.container_ip,
                           .server_port = port.container_port,
                           .server_record = record};
  const bool is_local = port.host_ip && port.host_ip->IsLoopback();
  if (client || is_local) {
    SetClient(connection, client ? *client : *port.host_ip, &port);
    connection.is_client_named = client.has_value();
  } else {
    SetAnyone(connection, port);
  }
  std::optional<Ip> node = port.host_ip;
  if (!node && connection.from == Connection::Place::kNode) {
    node = connection.source;
  }
  if (!node) {
    const std::optional<rtnl::Link> uplink =
        connection.uplink ? connection.uplink
                          : UplinkOfAnyone(connection, &port, connection.family());
    node = NodeAddress(uplink, connection.family());
  }
  if (!node) {
    node = NodeAddress(UplinkOfAnyone(connection, &port, connection.family()), connection.family());
  }
  if (!node || (connection.from == Connection::Place::kBeyond && !connection.uplink)) {
    return std::nullopt;
  }
  connection.destination = *node;
  return connection;
}

std::optional<Connection> Planner::ByAnotherClient(const Connection& connection) {
  if (connection.from != Connection::Place::kBeyond || !connection.uplink) {
    return std::nullopt;
  }
  const Family family = connection.family();
  std::optional<Ip> client = AnyoneBeyond(facts_, *connection.uplink, family);
  if (client == connection.source) {
    client = client == link::InternetAddress(family) ? AnotherBeyond(family) : client->Plus(1);
  }
  Connection other = connection;
  other.source = client.value_or(connection.source);
  return client ? std::optional(other) : std::nullopt;
}

std::optional<Connection> Planner::ByUsualUplink(const Connection& connection,
                                                 const portmap::DnatEntry& port) {
  const std::optional<rtnl::Link> usual = UplinkOfAnyone(connection, &port, connection.family());
  if (connection.from != Connection::Place::kBeyond || !usual ||
      (connection.uplink && usual->index == connection.uplink->index)) {
    return std::nullopt;
  }
  Connection other = connection;
  other.uplink = usual;
  other.destination = NodeAddress(usual, connection.family()).value_or(connection.destination);
  return other;
}

// Sets the allocation that has published the port as the server; if there is none, the node itself.
void Planner::SetService(Connection& connection) {
  for (const state::Records::Reading& each : facts_.host.records.ReadAll()) {
    for (const portmap::DnatEntry& port :
         each.record ? each.record->rules.ports : std::vector<portmap::DnatEntry>()) {
      if (port.protocol == connection.protocol && port.host_port == connection.port &&
          port.container_ip.family() == connection.family() &&
          port.host_ip.value_or(connection.destination) == connection.destination) {
        connection.server = port.container_ip;
        connection.server_port = port.container_port;
        connection.server_record = each.record;
        return;
      }
    }
  }
  connection.to = Connection::Place::kNode;
}

std::optional<Ip> Planner::FindOwnSource(const state::Record& record, const Ip& destination) {
  const std::optional<netlink::Netns> netns = link::FindNetns(record);
  if (!netns) {
    return std::nullopt;
  }
  const rtnl::RouteAnswer way = rtnl::Socket::In(*netns).LookUpRoute({.destination = destination});
  return way.is_local ? way.source : std::nullopt;
}

std::optional<Connection> Planner::FromAllocation(const state::Record& record,
                                                  Protocol protocol,
                                                  const Ip& destination,
                                                  std::uint16_t port) {
  const std::vector<Ip> own = AddressesOnly(record.ipam.addresses);
  const std::optional<Ip> inside = FindOwnSource(record, destination);
  const auto source = std::ranges::find(own, destination.family(), &Ip::family);
  if (source == own.end() && !inside) {
    return std::nullopt;
  }
  Connection connection = {.from = Connection::Place::kAllocation,
                           .protocol = protocol,
                           .source = inside ? *inside : *source,
                           .destination = destination,
                           .port = port,
                           .server = destination,
                           .server_port = port,
                           .client_record = record,
                           .is_client_named = true};
  if (inside) {
    connection.server_record = record;
    return connection;
  }
  const rtnl::RouteAnswer way = WayBeyond(facts_, connection);
  if (way.is_local) {
    SetService(connection);
  } else if (!(connection.server_record = FindHolder(destination, way))) {
    connection.to = Connection::Place::kBeyond;
    connection.uplink = LinkOf(way);
  }
  return connection;
}

std::optional<Connection> Planner::ToAllocation(const state::Record& record,
                                                Protocol protocol,
                                                std::uint16_t port,
                                                const Ip& client) {
  const std::vector<Ip> own = AddressesOnly(record.ipam.addresses);
  const auto server = std::ranges::find(own, client.family(), &Ip::family);
  if (server == own.end()) {
    return std::nullopt;
  }
  Connection connection = {.protocol = protocol,
                           .destination = *server,
                           .port = port,
                           .server = *server,
                           .server_port = port,
                           .server_record = record};
  SetClient(connection, client, nullptr);
  const bool is_lost = connection.from == Connection::Place::kBeyond && !connection.uplink;
  return is_lost ? std::nullopt : std::optional(connection);
}

}  // namespace nomad_bridge::causes
