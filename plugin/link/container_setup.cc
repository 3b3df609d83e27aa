#include "plugin/link/container_setup.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <linux/ipv6_route.h>
#include <linux/rtnetlink.h>

#include "base/list.h"
#include "base/text.h"
#include "netlink/core/sysctl.h"

namespace nomad_bridge::link {
namespace {

void EnsureIpv6IsOn(const rtnl::Link& link) {
  if (!link.HasIpv6()) {
    netlink::EnsureSysctl(netlink::Ipv6Setting(link.name, "disable_ipv6"), "0");
  }
}

void PrepareSysctls(Container& container,
                    const VethPair& veth,
                    const std::vector<Cidr>& addresses,
                    const config::LinkConfig& config) {
  const rtnl::Link& link = veth.container;
  netlink::InNetns(container.netns, [&] {
    if (HasFamily(addresses, Family::kIpv6)) {
      // lo needs IPv6, too: packets that the container sends to its own addresses go through lo.
      EnsureIpv6IsOn(link);
      EnsureIpv6IsOn(container.net.RequireLink("lo"));
      netlink::SetSysctlIfPossible(netlink::Ipv6Setting(link.name, "keep_addr_on_down"), "1");
    }
    if (config.port.source_check && veth.is_on_lan) {
      // The container would configure an address from a prefix that a router advertises, and prefer
      // it as its source; the source check would then drop everything it sends. Without an IPv6
      // address of ours, an advertised route is of no use, either. This is only needed beside a
      // LAN: on our own bridges, ports with a source check may not send advertisements (firewall).
      const char* const setting = HasFamily(addresses, Family::kIpv6) ? "autoconf" : "accept_ra";
      netlink::SetSysctlIfPossible(netlink::Ipv6Setting(link.name, setting), "0");
    }
    if (config.enable_dad) {
      // Enhanced (RFC 7527): with hairpin mode the container's own solicitation comes back to it.
      netlink::SetSysctlIfPossible(netlink::Ipv6Setting(link.name, "enhanced_dad"), "1");
      netlink::SetSysctlIfPossible(netlink::Ipv6Setting(link.name, "accept_dad"), "1");
    }
  });
}

// Waits until the pair and the bridge carry packets. With spanning tree waits for the pair only.
void AwaitPort(state::Host& host, const VethPair& veth, const config::LinkConfig& config) {
  const rtnl::Link port = host.net.AwaitOperational(veth.host.name, FromNow(kTimeout));
  if (port.forwarding) {
    // A bridge drops what the node sends until the kernel has noticed the carrier of its first
    // port. With spanning tree the bridge gets a carrier only when its first port forwards.
    static_cast<void>(host.net.AwaitOperational(config.gateway_ifname, FromNow(kTimeout)));
  }
}

// Waits until packets flow between the container, its neighbours and the node.
void AwaitTraffic(state::Host& host,
                  Container& container,
                  const VethPair& veth,
                  const std::vector<Cidr>& addresses,
                  const config::LinkConfig& config) {
  AwaitPort(host, veth, config);
  if (HasFamily(addresses, Family::kIpv6)) {
    // Until the kernel has noticed the carrier on this end, too, the container has no multicast
    // route, and misses its neighbours' solicitations.
    static_cast<void>(container.net.AwaitOperational(veth.container.name, FromNow(kTimeout)));
  }
  if (config.enable_dad) {
    container.net.AwaitAddresses(veth.container, FromNow(kTimeout));
    return;
  }
  for (const Cidr& address : addresses) {
    if (!address.address.is_ipv4()) {
      container.net.AwaitLocal(veth.container, address.address, FromNow(kTimeout));
    }
  }
}

// Returns the lowest metric that no default route out of another interface of the container has. So
// the first network's route is used, also after another ADD of that network. With equal metrics the
// kernel would choose anew for each connection: for IPv4 the gateway that answered last, for IPv6
// either. Some answers would then leave by a network whose source check drops them.
std::uint32_t FindFreeMetric(const std::map<int, std::vector<Route>>& present,
                             const rtnl::Link& link,
                             const Cidr& anywhere) {
  std::set<std::uint32_t> used;
  for (const auto& [index, routes] : present) {
    for (const Route& other : routes) {
      if (index != link.index && other.IsDefault() && other.destination == anywhere) {
        used.insert(other.priority);
      }
    }
  }
  std::uint32_t metric = anywhere.address.is_ipv4() ? 0 : IP6_RT_PRIO_USER;  // the kernel's own
  while (used.contains(metric)) {
    ++metric;
  }
  return metric;
}

// Adds the routes of `result`. A route without a gateway gets the first gateway of its family.
void AddRoutes(Container& container, const rtnl::Link& link, const cni::Result& result) {
  std::optional<std::map<int, std::vector<Route>>> present;  // by link
  for (Route route : result.routes) {
    const auto same_family = [&](const cni::IpConfig& ip) {
      return ip.address.address.family() == route.destination.address.family() && ip.gateway;
    };
    const auto ip = std::ranges::find_if(result.ips, same_family);
    if (!route.gateway && ip != result.ips.end() && route.scope != RT_SCOPE_LINK) {
      route.gateway = ip->gateway;
    }
    if (route.IsDefault() && route.priority == 0) {
      if (!present) {
        present = container.net.RoutesByLink();
      }
      route.priority = FindFreeMetric(*present, link, route.destination);
    }
    container.net.EnsureRoute(link, route);
  }
}

// Sends a gratuitous ARP and an unsolicited neighbour advertisement for the families of
// `addresses`. Called in the network namespace of `link`.
// Source: ip-sysctl.rst, arp_notify and ndisc_notify.
void Announce(rtnl::Socket& net, const rtnl::Link& link, const std::vector<Cidr>& addresses) {
  if (HasFamily(addresses, Family::kIpv4)) {
    netlink::SetSysctlIfPossible(netlink::Ipv4Setting(link.name, "arp_notify"), "1");
  }
  if (HasFamily(addresses, Family::kIpv6)) {
    netlink::SetSysctlIfPossible(netlink::Ipv6Setting(link.name, "ndisc_notify"), "1");
  }
  // The kernel announces the addresses when the MAC is set, even if it stays the same.
  net.Change(link, {.mac = link.mac});
}

}  // namespace

void BringUpBare(state::Host& host,
                 Container& container,
                 const VethPair& veth,
                 const config::LinkConfig& config) {
  PrepareSysctls(container, veth, {}, config);
  container.net.Change(veth.container, {.up = true});
  AwaitPort(host, veth, config);
}

void ConfigureContainer(state::Host& host,
                        Container& container,
                        const VethPair& veth,
                        const cni::Result& result,
                        const config::LinkConfig& config) {
  if (config.disable_container_interface) {
    return;
  }
  std::vector<Cidr> addresses;
  for (const cni::IpConfig& ip : result.ips) {
    addresses.push_back(ip.address);
  }
  PrepareSysctls(container, veth, addresses, config);
  for (const Cidr& address : addresses) {
    // Does not wait yet: the kernel prepares the addresses while the link comes up.
    container.net.AssignAddress(veth.container, address, config.enable_dad);
  }
  container.net.Change(veth.container, {.up = true});
  AddRoutes(container, veth.container, result);
  AwaitTraffic(host, container, veth, addresses, config);
}

void AnnounceIfNeeded(Container& container,
                      const VethPair& veth,
                      const state::Record& record,
                      const std::vector<Ip>& requested) {
  const rtnl::Link& link = veth.container;
  const auto may_be_known = [&](const Ip& address) {
    const bool is_new = !record.ipam.delegated && !record.ipam.IsSoonGivenAgain(address) &&
                        !Contains(requested, address);
    return veth.is_on_lan || (link.mac != Mac::For(address) && !is_new);
  };
  std::vector<Cidr> known = record.ipam.addresses;
  std::erase_if(known, [&](const Cidr& cidr) { return !may_be_known(cidr.address); });
  if (known.empty()) {
    return;
  }
  // The kernel's own announcement, when the link came up, was lost: the bridge's port was not
  // forwarding yet.
  netlink::InNetns(container.netns, [&] { Announce(container.net, link, known); });
}

void BringUpLoopback(Container& container) {
  container.net.Change({.index = rtnl::kLoopbackIndex, .name = "lo"}, {.up = true});
}

}  // namespace nomad_bridge::link
