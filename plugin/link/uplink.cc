#include "plugin/link/uplink.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "netlink/probe/address_holder.h"
#include "plugin/config/config.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::link {
namespace {

// Returns whether `link` is the host end of a container, also if somebody has renamed a host end of
// ours.
bool IsHostEnd(const rtnl::Link& link) {
  return link.kind == "veth" && link.peer_netns &&
         (link.name.starts_with("veth") || link.name.starts_with("vb-") ||
          state::ParseAlias(link.alias));
}

// Returns whether `name` looks like a generated name of a host end: "veth" and 8 hex digits
// (reference plugins), 7 (Docker) or 11 (ours).
bool IsGeneratedName(std::string_view name) {
  constexpr std::string_view kPrefix = "veth";
  constexpr std::size_t kLeastDigits = 7;
  return name.starts_with(kPrefix) && name.size() >= kPrefix.size() + kLeastDigits &&
         name.find_first_not_of("0123456789abcdef", kPrefix.size()) == name.npos;
}

bool IsUplink(const rtnl::Link& port) {
  return !IsGeneratedName(port.name) && !IsHostEnd(port);
}

// The dump of ports has no kinds, and a query for each port takes 20 us with a thousand ports. A
// port that is gone by now is no uplink.
bool IsUplink(rtnl::Socket& net, const rtnl::Link& port) {
  if (IsGeneratedName(port.name)) {
    return false;
  }
  const std::optional<rtnl::Link> link = net.FindLink(port.index);
  return link && !IsHostEnd(*link);
}

bool IsBehindOurPort(rtnl::Socket& net, const rtnl::Link& bridge, const rtnl::FdbEntry& entry) {
  const std::optional<rtnl::Link> port = net.FindLink(entry.port);
  return port && port->master == bridge.index && state::ParseAlias(port->alias);
}

// Returns who has the MAC of `entry` on this node's side of `bridge`; nullopt if the MAC is beyond
// an uplink, or on another bridge.
std::optional<std::string> NameHolder(rtnl::Socket& net,
                                      const rtnl::Link& bridge,
                                      const rtnl::FdbEntry& entry) {
  const std::optional<rtnl::Link> port = net.FindLink(entry.port);
  if (!port || port->master != bridge.index) {
    return std::nullopt;
  }
  if (entry.kind == rtnl::FdbEntry::Kind::kOwn) {
    return Format("the port '{}' itself", port->name);
  }
  const bool is_inside = port->kind == "tun" || (port->kind == "veth" && port->peer_netns);
  return is_inside ? std::optional(Format("what is behind the port '{}'", port->name))
                   : std::nullopt;
}

}  // namespace

std::set<std::string> FindUplinks(const std::vector<rtnl::Link>& links, const rtnl::Link& bridge) {
  std::set<std::string> names;
  for (const rtnl::Link& port : links) {
    if (port.master == bridge.index && IsUplink(port)) {
      names.insert(port.name);
    }
  }
  return names;
}

bool HasUplink(rtnl::Socket& net, const rtnl::Link& bridge) {
  return std::ranges::any_of(net.Ports(bridge.index),
                             [&](const rtnl::Link& port) { return IsUplink(net, port); });
}

bool IsDeadEnd(rtnl::Socket& net, const std::string& bridge) {
  const std::optional<rtnl::Link> found = bridge.empty() ? std::nullopt : net.FindLink(bridge);
  return found &&
         std::ranges::all_of(net.Addresses(*found),
                             [](const Cidr& cidr) { return cidr.address.IsLinkLocal(); }) &&
         !HasUplink(net, *found);
}

std::string DescribeDeadEnd(const std::string& bridge) {
  return Format("bridge '{}' has neither an uplink nor a gateway: nothing beyond it is reached",
                bridge);
}

std::optional<std::string> FindMacHolder(rtnl::Socket& net,
                                         const std::string& bridge_name,
                                         const Mac& mac) {
  const std::optional<rtnl::Link> bridge = net.FindLink(bridge_name);
  if (!bridge) {
    return std::nullopt;
  }
  if (bridge->mac == mac) {
    return Format("bridge '{}' itself", bridge_name);
  }
  for (const rtnl::FdbEntry& entry : net.AllFdbEntries()) {
    if (entry.mac == mac) {
      if (std::optional<std::string> holder = NameHolder(net, *bridge, entry)) {
        return holder;
      }
    }
  }
  return std::nullopt;
}

std::optional<Mac> FindHolderOnLan(state::Host& host,
                                   const rtnl::Link& bridge,
                                   const rtnl::Link& gateway,
                                   const Ip& address) {
  if (!HasUplink(host.net, bridge)) {
    return std::nullopt;
  }
  std::set<Mac> holders = probe::FindHolders(host.netns, gateway.index, gateway.mac, address);
  if (holders.empty()) {
    return std::nullopt;  // avoids a list of all FDB entries
  }
  for (const rtnl::FdbEntry& entry : host.net.AllFdbEntries()) {
    if (holders.contains(entry.mac) && IsBehindOurPort(host.net, bridge, entry)) {
      holders.erase(entry.mac);
    }
  }
  return holders.empty() ? std::nullopt : std::optional(*holders.begin());
}

std::vector<rtnl::Link> Uplinks(std::vector<rtnl::Link> links) {
  std::set<int> inside;   // bridges of this node alone
  std::set<int> carried;  // bridges with an operational port that leads to another machine
  for (const rtnl::Link& link : links) {
    if (link.kind == "bridge") {
      inside.insert(link.index);
    }
  }
  for (const rtnl::Link& port : links) {
    if (!IsHostEnd(port)) {
      inside.erase(port.master);
      if (port.operational) {
        carried.insert(port.master);
      }
    }
  }
  std::erase_if(links, [&](const rtnl::Link& link) {
    return link.index == rtnl::kLoopbackIndex || link.kind == "dummy" || link.master != 0 ||
           IsHostEnd(link) || inside.contains(link.index) ||
           (link.kind == "vlan" && inside.contains(link.peer));
  });
  for (rtnl::Link& link : links) {
    link.operational = link.operational && (link.kind != "bridge" || carried.contains(link.index));
  }
  return links;
}

// The addresses of a.root-servers.net.
Ip InternetAddress(Family family) {
  return Ip::Parse(family == Family::kIpv4 ? "198.41.0.4" : "2001:503:ba3e::2:30").value();
}

state::Record::DefaultRoutes FindDefaultRoutes(rtnl::Socket& net) {
  const auto has = [&](Family family) {
    // IPv6: the query names lo as the input link. Otherwise the kernel searches all links for a
    // source address.
    const rtnl::RouteAnswer way =
        net.LookUpRoute({.destination = InternetAddress(family),
                         .input_link = family == Family::kIpv6 ? rtnl::kLoopbackIndex : 0});
    return way.error == 0 && way.link != rtnl::kLoopbackIndex;
  };
  return {.ipv4 = has(Family::kIpv4), .ipv6 = has(Family::kIpv6)};
}

int MtuOf(rtnl::Socket& net, int wanted) {
  if (wanted != config::kUplinkMtu) {
    return wanted;
  }
  int least = 0;
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const std::optional<int> index = net.LookupOutputInterface(InternetAddress(family));
    const std::optional<rtnl::Link> uplink = index ? net.FindLink(*index) : std::nullopt;
    if (uplink && uplink->index != rtnl::kLoopbackIndex) {
      least = least == 0 ? uplink->mtu : std::min(least, uplink->mtu);
    }
  }
  return least;
}

}  // namespace nomad_bridge::link
