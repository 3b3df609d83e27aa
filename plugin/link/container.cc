#include "plugin/link/container.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/text.h"
#include "plugin/link/frame_reader.h"

namespace nomad_bridge::link {
namespace {

Container Enter(netlink::Netns netns, const cni::Request& request, const netlink::Netns& host) {
  if (netns.id() == host.id() && !request.netns_override) {
    throw Error(
        Code::kInvalidNetns,
        Format("CNI_NETNS '{}' is the network namespace of the host itself", request.netns_path),
        "a container needs one of its own; CNI_NETNS_OVERRIDE=1 allows it nevertheless");
  }
  rtnl::Socket net = rtnl::Socket::In(netns);
  netlink::NetnsId id = netns.id();
  id.cookie = net.NetnsCookie();
  return {.netns = std::move(netns), .net = std::move(net), .id = id};
}

// Returns the index of the container's interface: the interface of that name in a sandbox,
// preferably in this sandbox. CNI_NETNS may be spelt differently than at ADD (/var/run for /run),
// or be empty (DEL).
std::optional<int> FindInterface(const cni::Request& request, const cni::Result& expected) {
  std::optional<int> found;
  for (std::size_t i = 0; i < expected.interfaces.size(); ++i) {
    const cni::Interface& interface = expected.interfaces[i];
    if (interface.name != request.id.ifname || interface.sandbox.empty()) {
      continue;
    }
    if (!found || interface.sandbox == request.netns_path) {
      found = static_cast<int>(i);
    }
  }
  return found;
}

// The kernel puts a route without a table, or with table 0, into the main table.
// A result's route may leave out attributes that the kernel reports: these may have any value.
bool Matches(const Route& expected, const Route& present) {
  const Cidr network{expected.destination.Network(), expected.destination.prefix_length};
  return present.destination == network &&
         (!expected.gateway || expected.gateway == present.gateway) &&
         (!expected.table || expected.Table() == present.Table()) &&
         (expected.mtu == 0 || expected.mtu == present.mtu) &&
         (expected.advmss == 0 || expected.advmss == present.advmss) &&
         (expected.priority == 0 || expected.priority == present.priority);
}

std::string Describe(const Route& route) {
  return Cat(route.destination, route.gateway ? Cat(" via ", *route.gateway) : "");
}

std::vector<std::string> DiffInterface(const rtnl::Link& link, ExpectedState state) {
  std::vector<std::string> mismatches;
  if (link.kind != "veth") {
    mismatches.push_back(
        Format("interface '{}' is no longer a veth: it is '{}'", link.name, link.kind));
  }
  if (!link.up && state == ExpectedState::kUp) {
    mismatches.push_back(Format("interface '{}' is down", link.name));
  }
  return mismatches;
}

void RemoveMatching(std::vector<Route>& expected, const std::vector<Route>& present) {
  std::erase_if(expected, [&](const Route& route) {
    return std::ranges::any_of(present, [&](const Route& some) { return Matches(route, some); });
  });
}

// A plugin later in the list may have added routes through another link. A container that runs a
// routing daemon has many routes, so all of them are read only if the routes through `link` are not
// enough.
std::vector<Route> MissingRoutes(Container& container,
                                 const rtnl::Link& link,
                                 std::vector<Route> expected) {
  if (!expected.empty()) {
    RemoveMatching(expected, container.net.Routes(link));
  }
  if (!expected.empty()) {
    RemoveMatching(expected, container.net.Routes());
  }
  return expected;
}

}  // namespace

Container OpenContainer(const cni::Request& request, const netlink::Netns& host) {
  return Enter(netlink::Netns::Open(request.netns_path), request, host);
}

std::optional<Container> FindContainer(const cni::Request& request,
                                       const netlink::Netns& host,
                                       const std::optional<state::Record>& record) {
  std::optional<netlink::Netns> netns =
      request.netns_path.empty() ? std::nullopt : netlink::Netns::Find(request.netns_path);
  if (netns && netns->id() == host.id() && record && record->netns_path == request.netns_path &&
      record->netns != netns->id()) {
    return std::nullopt;  // "/proc/<pid>/ns/net", and a new process has the container's pid
  }
  return netns ? std::optional(Enter(*std::move(netns), request, host)) : std::nullopt;
}

std::optional<Inside> FindInside(const std::string& netns_path, const std::string& ifname) {
  const std::optional<netlink::Netns> netns = netlink::Netns::Find(netns_path);
  if (!netns) {
    return std::nullopt;
  }
  rtnl::Socket net = rtnl::Socket::In(*netns);
  const std::optional<rtnl::Link> link = net.FindLink(ifname);
  if (!link) {
    return std::nullopt;
  }
  Inside inside{.netns = netns->id(), .link = *link, .addresses = net.Addresses(*link)};
  inside.netns.cookie = net.NetnsCookie();
  std::erase_if(inside.addresses, [](const Cidr& cidr) { return cidr.address.IsLinkLocal(); });
  return inside;
}

std::optional<std::string> FindMacMismatch(const rtnl::Link& inside, const state::Record& record) {
  if (!record.link.port.source_check || inside.mac == record.ContainerMac()) {
    return std::nullopt;
  }
  return Format(
      "interface '{}' has the MAC {}, and sourceCheck drops frames from any other MAC than {}",
      inside.name,
      inside.mac,
      record.ContainerMac());
}

std::vector<std::string> DiffContainer(Container& container,
                                       const cni::Request& request,
                                       const std::optional<rtnl::Link>& link,
                                       const cni::Result& expected,
                                       ExpectedState state) {
  const std::string& ifname = request.id.ifname;
  const std::optional<int> index = FindInterface(request, expected);
  if (!index) {
    return {Format("prevResult has no interface '{}' in '{}'", ifname, request.netns_path)};
  }
  if (!link) {
    return {Format("interface '{}' is missing", ifname)};
  }
  std::vector<std::string> mismatches = DiffInterface(*link, state);
  std::vector<std::string> missing;
  const std::optional<Mac> mac =
      Mac::Parse(expected.interfaces[static_cast<std::size_t>(*index)].mac);
  if (mac && *mac != link->mac) {
    missing.push_back(
        Format("interface '{}' has the MAC {} instead of {}", link->name, link->mac, *mac));
  }
  const std::vector<Cidr> addresses = container.net.Addresses(*link);
  for (const cni::IpConfig& ip : expected.ips) {
    if (ip.interface == index && !Contains(addresses, ip.address)) {
      missing.push_back(Format("address {} is missing on '{}'", ip.address, ifname));
    }
  }
  for (const Route& route : MissingRoutes(container, *link, expected.routes)) {
    missing.push_back(Cat("route to ", Describe(route), " is missing"));
  }
  // If CHECK failed here, Nomad would replace the network under a sandbox that works.
  if (!missing.empty() && !FindFrameReader(container.netns, container.net, *link)) {
    Append(mismatches, std::move(missing));
  }
  return mismatches;
}

std::vector<std::string> DiffLoopback(Container& container) {
  const std::optional<rtnl::Link> lo = container.net.FindLink("lo");
  if (lo && lo->up) {
    return {};
  }
  return {"interface 'lo' is down"};
}

std::vector<Cidr> AddressesIn(const cni::Result& result, const cni::Request& request) {
  const std::optional<int> ours = FindInterface(request, result);
  std::vector<Cidr> addresses;
  for (const cni::IpConfig& ip : result.ips) {
    if (!ip.interface || ip.interface == ours) {
      addresses.push_back(ip.address);
    }
  }
  return addresses;
}

std::optional<Mac> MacIn(const cni::Result& result, const cni::Request& request) {
  const std::optional<int> ours = FindInterface(request, result);
  return ours ? Mac::Parse(result.interfaces[static_cast<std::size_t>(*ours)].mac) : std::nullopt;
}

}  // namespace nomad_bridge::link
