#include "plugin/link/subnet.h"

#include <algorithm>

#include <linux/rtnetlink.h>

#include "base/text.h"
#include "plugin/link/bridge.h"
#include "plugin/link/given_gateways.h"

namespace nomad_bridge::link {
namespace {

// Returns the name of the network that gave `link` an address, even if the network has no
// attachment now. Ignores the network `except`. Returns "" if there is no such network.
std::string NetworkOn(rtnl::Socket& net, const rtnl::Link& link, const std::string& except) {
  for (const Cidr& address : net.Addresses(link)) {
    if (std::string network = FindNetworkOf(address, except); !network.empty()) {
      return network;
    }
  }
  return {};
}

bool IsAnyTo(const std::vector<Route>& routes, const Cidr& destination) {
  return std::ranges::any_of(routes, [&](const Route& route) {
    return route.destination == destination && route.Table() == Route::kMainTable;
  });
}

std::string NameOf(rtnl::Socket& net, int index) {
  const std::optional<rtnl::Link> link = net.FindLink(index);
  return link ? link->name : "?";
}

// Returns another address of the subnet of `own`, an address of the node. A look-up of `own` itself
// finds that packets end here.
Ip NeighbourOf(const Cidr& own) {
  const Ip first = own.Network();
  const bool has_two = own.prefix_length == own.address.bits() - 1;
  return own.address != first.Plus(1) ? first.Plus(1) : has_two ? first : first.Plus(2);
}

// Returns addresses such that a route which takes addresses of the subnet most likely leads to one
// of them.
std::vector<Ip> AddressesToLookUp(rtnl::Socket& net,
                                  const state::Record& record,
                                  const Cidr& gateway) {
  std::vector<Ip> addresses = {gateway.address};
  if (record.ipam.ranges.empty()) {
    addresses.insert(addresses.end(), {gateway.Network().Plus(1), gateway.Last()});
  }
  for (const auto& set : record.ipam.ranges) {
    for (const auto& range : set) {
      if (gateway.Contains(range.first)) {
        addresses.insert(addresses.end(), {range.first, range.last});
      }
    }
  }
  for (const auto& [link, own_addresses] : net.AddressesByLink()) {
    for (const Cidr& own : own_addresses) {
      if (own.prefix_length < own.address.bits() && gateway.Overlaps(own)) {
        addresses.push_back(NeighbourOf(own));
      }
    }
  }
  return addresses;
}

// Returns that `route` out of `taker` takes addresses from the subnet of `gateway`.
Finding Overlap(rtnl::Socket& net,
                const state::Record& record,
                const Cidr& gateway,
                const Route& route,
                const rtnl::Link& taker) {
  const std::string network = NetworkOn(net, taker, record.id.network);
  const std::optional<Fix> idle = FindFixForIdle(net, taker);
  return {.area = Finding::Area::kBridge,
          .owner = record.link.bridge,
          .text = Format("subnet {}/{} of network '{}' overlaps with {}{} by '{}'",
                         gateway.Network(),
                         gateway.prefix_length,
                         record.id.network,
                         route.destination,
                         network.empty() ? "" : Format(" of network '{}'", network),
                         taker.name),
          .fix = idle.value_or(Fix::Advice("another subnet in the conflist, or the same bridge"))};
}

// `taker`: the link by which the packets leave.
Finding ByRule(const state::Record& record,
               const rtnl::Link& gateway,
               const Ip& address,
               const std::string& taker,
               const rtnl::RoutingRule& rule) {
  const auto of_network = std::ranges::find_if(
      record.ipam.addresses, [&](const Cidr& each) { return each.Contains(address); });
  const Cidr own = of_network == record.ipam.addresses.end() ? Cidr::Host(address) : *of_network;
  const Cidr subnet = {own.Network(), own.prefix_length};
  return {
      .area = Finding::Area::kNode,
      .text = Format("packets to {} leave by '{}', not by '{}': of the node's routing rules, '{}' "
                     "comes first (priority {})",
                     subnet,
                     taker,
                     gateway.name,
                     rule.text,
                     rule.priority),
      .fix = rule.priority <= 1 ? Fix::Advice("give that rule a lower priority, or take it away")
                                : Fix(Format("ip{} rule add to {} lookup main priority {}",
                                             address.is_ipv4() ? "" : " -6",
                                             subnet,
                                             rule.priority - 1)),
      .family = address.family()};
}

Finding ByRoute(rtnl::Socket& net,
                const rtnl::Link& gateway,
                const Ip& address,
                const rtnl::RouteAnswer& way) {
  const char* const family = address.is_ipv4() ? "" : "-6 ";
  return {.area = Finding::Area::kNode,
          .text = way.error != 0 ? Format("no packet gets to {}: {}", address, ErrorText(way))
                  : way.is_local ? Format("packets for {} end at this node", address)
                                 : Format("the route to {} leads out of '{}', not of '{}'",
                                          address,
                                          NameOf(net, way.link),
                                          gateway.name),
          // Without the address: many containers may have the same reason.
          .fix = Fix::Advice(Format("take that route or rule away, or have the network use another "
                                    "subnet: ip {}rule show; ip {}route show table all",
                                    family,
                                    family)),
          .family = address.family()};
}

}  // namespace

std::optional<Fix> FindFixForIdle(rtnl::Socket& net, const rtnl::Link& taker) {
  if (!IsMadeByUs(taker) || !net.Ports(taker.index).empty()) {
    return std::nullopt;
  }
  return Fix::Advice(
      Format("if no network uses bridge '{}' any more: ip link delete {}; else "
             "another subnet in the conflist, or the same bridge",
             taker.name,
             ShellWord(taker.name)));
}

bool TakesAddressesOf(const Route& route, const Cidr& gateway, const state::Record& record) {
  const Cidr& to = route.destination;
  if (route.table != RT_TABLE_MAIN || !gateway.Overlaps(to) ||
      to.prefix_length < gateway.prefix_length || to == Cidr::Host(gateway.address)) {
    return false;
  }
  const auto is_given_out = [&](const auto& range) {
    return range.Contains(to.Network()) || to.Contains(range.first);
  };
  const auto& sets = record.ipam.ranges;
  return sets.empty() || to.Contains(gateway.address) ||
         std::ranges::any_of(
             sets, [&](const auto& set) { return std::ranges::any_of(set, is_given_out); });
}

std::optional<Finding> FindTaker(rtnl::Socket& net,
                                 const state::Record& record,
                                 const Cidr& gateway) {
  for (const Ip& address : AddressesToLookUp(net, record, gateway)) {
    for (const auto& [index, routes] : net.RoutesTo(address)) {
      const auto taking = std::ranges::find_if(routes, [&](const Route& route) {
        return route.destination.prefix_length < gateway.address.bits() &&
               TakesAddressesOf(route, gateway, record);
      });
      const std::optional<rtnl::Link> taker =
          taking == routes.end() ? std::nullopt : net.FindLink(index);
      if (taker && taker->name != record.link.gateway_ifname) {
        return Overlap(net, record, gateway, *taking, *taker);
      }
    }
  }
  return std::nullopt;
}

std::optional<Finding> FindDetour(rtnl::Socket& net,
                                  const state::Record& record,
                                  const rtnl::Link& gateway,
                                  const rtnl::RouteQuery& query) {
  if (gateway.master != 0) {
    return std::nullopt;
  }
  const Ip& address = query.destination;
  const rtnl::RouteAnswer way = net.LookUpRoute(query);
  const bool is_by_gateway = way.error == 0 && way.link == gateway.index;
  if (is_by_gateway || (way.error != 0 && query.input_link != 0)) {
    return std::nullopt;
  }
  for (const Cidr& own : record.link.gateways) {
    const Cidr subnet = {own.Network(), own.prefix_length};
    if (own.Contains(address) && !IsAnyTo(net.Routes(gateway), subnet)) {
      return Finding{.area = Finding::Area::kBridge,
                     .owner = record.link.bridge,
                     .text = Format("the route to {} out of '{}' is missing", subnet, gateway.name),
                     .is_repairable = true};
    }
  }
  const std::optional<rtnl::RoutingRule> rule =
      way.error == 0 ? net.FindRule(query, way.table) : std::nullopt;
  return rule ? ByRule(record, gateway, address, NameOf(net, way.link), *rule)
              : ByRoute(net, gateway, address, way);
}

}  // namespace nomad_bridge::link
