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

std::optional<Finding> FindDetour(rtnl::Socket& net,
                                  const state::Record& record,
                                  const rtnl::Link& gateway,
                                  const Ip& address) {
  if (gateway.master != 0) {
    return std::nullopt;
  }
  const rtnl::RouteAnswer way = net.LookUpRoute({.destination = address});
  if (way.error == 0 && way.link == gateway.index) {
    return std::nullopt;
  }
  Finding finding = {.area = Finding::Area::kBridge, .owner = record.link.bridge};
  for (const Cidr& own : record.link.gateways) {
    const Cidr subnet = {own.Network(), own.prefix_length};
    if (own.Contains(address) && !IsAnyTo(net.Routes(gateway), subnet)) {
      finding.text = Format("the route to {} out of '{}' is missing", subnet, gateway.name);
      finding.is_repairable = true;
      return finding;
    }
  }
  if (way.error != 0) {
    finding.text = Format("no packet gets to {}: {}", address, ErrorText(way));
  } else if (way.link == rtnl::kLoopbackIndex) {
    finding.text = Format("packets for {} end at this node", address);
  } else {
    const std::optional<rtnl::Link> taker = net.FindLink(way.link);
    finding.text = Format("the route to {} leads out of '{}', not of '{}'{}",
                          address,
                          taker ? taker->name : "?",
                          gateway.name,
                          way.table == RT_TABLE_MAIN ? "" : Format(" (table {})", way.table));
  }
  // Without the address: many containers have the same reason.
  const char* const family = address.is_ipv4() ? "" : "-6 ";
  finding.fix =
      Fix::Advice(Format("take that route or rule away, or have the network use another "
                         "subnet: ip {}rule show; ip {}route show table {}",
                         family,
                         family,
                         way.error == 0 ? std::to_string(way.table) : "all"));
  return finding;
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
  for (const auto& [index, routes] : net.RoutesByLink()) {
    const auto taking = std::ranges::find_if(routes, [&](const Route& route) {
      return route.destination.prefix_length < gateway.address.bits() &&
             TakesAddressesOf(route, gateway, record);
    });
    const std::optional<rtnl::Link> taker =
        taking == routes.end() ? std::nullopt : net.FindLink(index);
    if (!taker || taker->name == record.link.gateway_ifname) {
      continue;
    }
    const std::string network = NetworkOn(net, *taker, record.id.network);
    const std::optional<Fix> idle = FindFixForIdle(net, *taker);
    return Finding{
        .area = Finding::Area::kBridge,
        .owner = record.link.bridge,
        .text = Format("subnet {}/{} of network '{}' overlaps with {}{} by '{}'",
                       gateway.Network(),
                       gateway.prefix_length,
                       record.id.network,
                       taking->destination,
                       network.empty() ? "" : Format(" of network '{}'", network),
                       taker->name),
        .fix = idle.value_or(Fix::Advice("another subnet in the conflist, or the same bridge"))};
  }
  return std::nullopt;
}

}  // namespace nomad_bridge::link
