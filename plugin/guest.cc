#include "plugin/guest.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace nomad_bridge {
namespace {

void RequireNotHost(const Request& request, const Host& host, const Netns& netns) {
  if (netns.id() == host.netns.id() && !request.netns_override) {
    throw Error(Code::kInvalidNetns,
                Cat("CNI_NETNS ",
                    Quoted(request.netns_path),
                    " is the network namespace of the host itself"),
                "a container needs one of its own; CNI_NETNS_OVERRIDE=1 allows it nevertheless");
  }
}

// Which of the expected interfaces is ours: the one under this name in a sandbox, best in this one.
// The path may be another than at ADD (/var/run for /run), or there may be none any more (DEL).
std::optional<int> FindInterface(const Request& request, const Result& expected) {
  std::optional<int> found;
  for (std::size_t i = 0; i < expected.interfaces.size(); ++i) {
    const Interface& interface = expected.interfaces[i];
    if (interface.name != request.who.ifname || interface.sandbox.empty()) {
      continue;
    }
    if (!found || interface.sandbox == request.netns_path) {
      found = static_cast<int>(i);
    }
  }
  return found;
}

template <typename Range, typename Predicate>
bool Any(const Range& range, Predicate predicate) {
  return std::any_of(range.begin(), range.end(), predicate);
}

bool SameOrUnsaid(const std::optional<Ip>& expected, const std::optional<Ip>& present) {
  return !expected || expected == present;
}

// To the kernel table 0 is the main one.
std::uint32_t TableOf(const Route& route) {
  constexpr std::uint32_t kMain = 254;
  const std::uint32_t table = route.table.value_or(0);
  return table == 0 ? kMain : table;
}

// A route of the result says less than the kernel's: what it does not say, may be anything.
bool Matches(const Route& expected, const Route& present) {
  const Cidr network{expected.destination.Network(), expected.destination.prefix_length};
  return present.destination == network && SameOrUnsaid(expected.gateway, present.gateway) &&
         (!expected.table || TableOf(expected) == TableOf(present)) &&
         (expected.mtu == 0 || expected.mtu == present.mtu) &&
         (expected.advmss == 0 || expected.advmss == present.advmss) &&
         (expected.priority == 0 || expected.priority == present.priority);
}

std::string Describe(const Route& route) {
  return Cat(route.destination, route.gateway ? Cat(" via ", *route.gateway) : "");
}

std::vector<std::string> LinkDifferences(const Link& link,
                                         const Interface& expected,
                                         bool stays_down) {
  std::vector<std::string> found;
  if (link.kind != "veth") {
    found.push_back(
        Cat("interface ", Quoted(link.name), " is no veth any more but ", Quoted(link.kind)));
  }
  if (!link.up && !stays_down) {
    found.push_back(Cat("interface ", Quoted(link.name), " is down"));
  }
  const std::optional<Mac> mac = Mac::Parse(expected.mac);
  if (mac && *mac != link.mac) {
    found.push_back(
        Cat("interface ", Quoted(link.name), " has the MAC ", link.mac, " instead of ", *mac));
  }
  return found;
}

void Strike(std::vector<Route>& expected, const std::vector<Route>& present) {
  std::erase_if(expected, [&](const Route& route) {
    return Any(present, [&](const Route& some) { return Matches(route, some); });
  });
}

// A plugin behind us may have added some out of a link of its own; all routes of a guest that runs a
// routing daemon are many, so they are looked at only if ours are not enough.
std::vector<Route> MissingRoutes(Guest& guest, const Link& link, std::vector<Route> expected) {
  if (!expected.empty()) {
    Strike(expected, guest.net.Routes(link));
  }
  if (!expected.empty()) {
    Strike(expected, guest.net.Routes());
  }
  return expected;
}

}  // namespace

Guest OpenGuest(const Request& request, const Host& host) {
  Netns netns = Netns::Open(request.netns_path);
  RequireNotHost(request, host, netns);
  Rtnl net = Rtnl::In(netns);
  return {.netns = std::move(netns), .net = std::move(net)};
}

std::optional<Guest> FindGuest(const Request& request, const Host& host) {
  std::optional<Netns> netns =
      request.netns_path.empty() ? std::nullopt : Netns::Find(request.netns_path);
  if (!netns) {
    return std::nullopt;
  }
  RequireNotHost(request, host, *netns);
  Rtnl net = Rtnl::In(*netns);
  return Guest{.netns = *std::move(netns), .net = std::move(net)};
}

std::vector<std::string> Differences(Guest& guest,
                                     const Request& request,
                                     const Result& expected,
                                     bool stays_down) {
  const std::string& ifname = request.who.ifname;
  const std::optional<int> index = FindInterface(request, expected);
  if (!index) {
    return {
        Cat("prevResult has no interface ", Quoted(ifname), " in ", Quoted(request.netns_path))};
  }
  const std::optional<Link> link = guest.net.FindLink(ifname);
  if (!link) {
    return {Cat("interface ", Quoted(ifname), " is missing")};
  }
  std::vector<std::string> found =
      LinkDifferences(*link, expected.interfaces[static_cast<std::size_t>(*index)], stays_down);
  const std::vector<Cidr> addresses = guest.net.Addresses(*link);
  for (const IpConfig& ip : expected.ips) {
    if (ip.interface == index &&
        !Any(addresses, [&](const Cidr& cidr) { return cidr == ip.address; })) {
      found.push_back(Cat("address ", ip.address, " is missing on ", Quoted(ifname)));
    }
  }
  for (const Route& route : MissingRoutes(guest, *link, expected.routes)) {
    found.push_back(Cat("route to ", Describe(route), " is missing"));
  }
  return found;
}

std::vector<std::string> LoopbackDifferences(Guest& guest) {
  const std::optional<Link> lo = guest.net.FindLink("lo");
  if (lo && lo->up) {
    return {};
  }
  return {"interface 'lo' is down"};
}

std::vector<Cidr> AddressesIn(const Result& result, const Request& request) {
  const std::optional<int> ours = FindInterface(request, result);
  std::vector<Cidr> addresses;
  for (const IpConfig& ip : result.ips) {
    if (!ip.interface || ip.interface == ours) {
      addresses.push_back(ip.address);
    }
  }
  return addresses;
}

}  // namespace nomad_bridge
