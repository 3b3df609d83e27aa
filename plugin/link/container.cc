#include "plugin/link/container.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/text.h"
#include "netlink/core/sysctl.h"
#include "plugin/config/config.h"
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

bool HasIpv6SwitchedOff(const rtnl::Link& link) {
  return link.ipv6 && link.ipv6->disabled;
}

// Compares what a sandbox or a virtual machine may have taken from the interface.
class InterfaceLook {
 public:
  InterfaceLook(Container& container, const rtnl::Link& link, const ExpectedInterface& expected)
      : container_(container), link_(link), expected_(expected) {}

  FindingList Run() {
    if (std::optional<Finding> wrong = FindWrongMac(link_, expected_)) {
      findings_.push_back(*std::move(wrong));
    }
    LookAtMtu();
    LookAtAddresses();
    for (const Route& route : MissingRoutes(container_, link_, expected_.routes)) {
      Add(Cat("route to ", Describe(route), " is missing"), "");
    }
    return std::move(findings_);
  }

 private:
  // `command` runs inside; empty: nothing to run.
  void Add(std::string text, const std::string& command) {
    findings_.push_back(
        {.area = Finding::Area::kContainer,
         .text = std::move(text),
         .fix = command.empty() ? Fix() : Fix(state::InNetns(expected_.netns_path, command))});
  }

  void LookAtMtu() {
    const bool has_ipv6 = std::ranges::any_of(
        expected_.addresses, [](const Cidr& each) { return !each.address.is_ipv4(); });
    if (has_ipv6 && link_.mtu < config::kMinIpv6Mtu) {
      Add(Format("interface '{}' has lost IPv6: its MTU is {}, and IPv6 needs {}",
                 link_.name,
                 link_.mtu,
                 config::kMinIpv6Mtu),
          Format("ip link set {} mtu {}",
                 ShellWord(link_.name),
                 expected_.mtu > 0 ? expected_.mtu : config::kEthernetMtu));
    }
  }

  void LookAtAddresses() {
    const std::vector<Cidr> present = container_.net.Addresses(link_);
    for (const Cidr& address : expected_.addresses) {
      if (Contains(present, address)) {
        continue;
      }
      if (!address.address.is_ipv4() && HasIpv6SwitchedOff(link_)) {
        Add(Format("interface '{}' has IPv6 switched off", link_.name),
            Cat("sysctl -w ",
                ShellWord(Cat(netlink::Ipv6Setting(link_.name, "disable_ipv6"), "=0"))));
      } else {
        Add(Format("interface '{}' has lost {}", link_.name, address),
            Format("ip {}address add {} dev {}{}",
                   address.address.is_ipv4() ? "" : "-6 ",
                   address,
                   ShellWord(link_.name),
                   address.address.is_ipv4() ? "" : " nodad"));
      }
    }
  }

  Container& container_;
  const rtnl::Link& link_;
  const ExpectedInterface& expected_;
  FindingList findings_;
};

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

std::optional<netlink::Netns> FindNetns(const state::Record& record) {
  std::optional<netlink::Netns> netns = netlink::Netns::Find(record.netns_path);
  return netns && netns->id() == record.netns ? std::move(netns) : std::nullopt;
}

FindingList FindInInterface(Container& container,
                            const std::optional<rtnl::Link>& link,
                            const ExpectedInterface& expected) {
  const auto found = [&](std::string text, Fix fix) {
    return Finding{
        .area = Finding::Area::kContainer, .text = std::move(text), .fix = std::move(fix)};
  };
  if (!link) {
    return {found(Format("interface '{}' is missing", expected.ifname), {})};
  }
  FindingList findings;
  if (!link->up && !expected.may_be_down) {
    findings.push_back(found(
        Format("interface '{}' is down", link->name),
        state::InNetns(expected.netns_path, Format("ip link set {} up", ShellWord(link->name)))));
  }
  FindingList lost = InterfaceLook(container, *link, expected).Run();
  // If CHECK failed here, Nomad would replace the network under a sandbox that works.
  if (!lost.empty() && !FindFrameReader(container.netns, container.net, *link)) {
    Append(findings, std::move(lost));
  }
  return findings;
}

std::optional<Finding> FindWrongMac(const rtnl::Link& link, const ExpectedInterface& expected) {
  if (!expected.mac || link.mac == *expected.mac) {
    return std::nullopt;
  }
  return Finding{
      .area = Finding::Area::kContainer,
      .text = expected.has_source_check
                  ? Format("interface '{}' has the MAC {}, and sourceCheck drops frames from any "
                           "other MAC than {}",
                           link.name,
                           link.mac,
                           *expected.mac)
                  : Format("interface '{}' has the MAC {} instead of {}",
                           link.name,
                           link.mac,
                           *expected.mac),
      .fix = state::InNetns(
          expected.netns_path,
          Format("ip link set {} address {}", ShellWord(link.name), expected.mac->Text()))};
}

FindingList FindInLoopback(Container& container) {
  const std::optional<rtnl::Link> lo = container.net.FindLink("lo");
  return lo && lo->up
             ? FindingList()
             : FindingList{{.area = Finding::Area::kContainer, .text = "interface 'lo' is down"}};
}

ExpectedInterface ExpectedBy(const state::Record& record) {
  return {
      .netns_path = record.netns_path,
      .ifname = record.id.ifname,
      .mac = record.link.port.source_check ? std::optional(record.ContainerMac()) : std::nullopt,
      .has_source_check = record.link.port.source_check,
      .addresses = record.ipam.addresses,
      .mtu = record.link.mtu,
      .may_be_down = record.ipam.addresses.empty()};  // disableContainerInterface
}

std::optional<ExpectedInterface> ExpectedBy(const cni::Result& expected,
                                            const cni::Request& request) {
  const std::optional<int> index = FindInterface(request, expected);
  if (!index) {
    return std::nullopt;
  }
  ExpectedInterface interface = {
      .netns_path = request.netns_path,
      .ifname = request.id.ifname,
      .mac = Mac::Parse(expected.interfaces[static_cast<std::size_t>(*index)].mac),
      .routes = expected.routes};
  for (const cni::IpConfig& ip : expected.ips) {
    if (ip.interface == index) {
      interface.addresses.push_back(ip.address);
    }
  }
  return interface;
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
