#include <algorithm>

#include "base/text.h"
#include "plugin/causes/in_container.h"

namespace nomad_bridge::causes {
namespace {

Cause Refused(const std::string& what, const Fix& fix) {
  return {.text = Cat(what, ": CHECK fails for that, and Nomad then replaces its network"),
          .fix = fix,
          .ends = false};
}

void LookAtName(const rtnl::Link& link, const state::Record& record, Causes& causes) {
  if (link.name != record.id.ifname) {
    causes.push_back(Refused(
        Format("the interface '{}' is called '{}' now", record.id.ifname, link.name),
        Fix::Advice(Cat("when it may be interrupted: ", record.RuntimeFix("stop").command))));
  }
}

// An address that is gone is why ports do not answer.
void LookAtPrefixes(rtnl::Socket& container,
                    const rtnl::Link& link,
                    const state::Record& record,
                    Causes& causes) {
  const std::vector<Cidr> present = container.Addresses(link);
  for (const Cidr& address : record.ipam.addresses) {
    const auto is_it = [&](const Cidr& each) { return each.address == address.address; };
    const auto other = std::ranges::find_if(present, is_it);
    if (other != present.end() && std::ranges::find(present, address) == present.end()) {
      const std::string command = Format("{} address add {} dev {}",
                                         IpTool(address.address.family()),
                                         address,
                                         ShellWord(link.name));
      // An interface has an IPv6 address but once.
      causes.push_back(Refused(
          Format("the address {} is {} now", address, *other),
          address.address.is_ipv4()
              ? Fix(InsideFix(record, command))
              : Fix::Advice(Format("take {} away, then: {}", *other, InsideFix(record, command)))));
    }
  }
}

// One by the gateway's link-local address, such as router advertisements bring, leads to it, too.
void LookAtIpv6Gateway(rtnl::Socket& container,
                       const rtnl::Link& link,
                       const state::Record& record,
                       Causes& causes) {
  const std::optional<Ip> gateway = OwnGateway(record, Family::kIpv6);
  if (!gateway) {
    return;
  }
  std::optional<Ip> other;
  for (const Route& route : container.Routes()) {
    const bool is_default =
        route.destination.prefix_length == 0 && !route.destination.address.is_ipv4();
    if (is_default && route.gateway == gateway) {
      return;
    }
    if (is_default && route.gateway && route.gateway->IsLinkLocal()) {
      other = route.gateway;
    }
  }
  if (other) {
    causes.push_back(Refused(
        Format("the default route for IPv6 is by {}, not by {}", *other, *gateway),
        InsideFix(
            record,
            Format("ip -6 route replace default via {} dev {}", *gateway, ShellWord(link.name)))));
  }
}

void LookAtLoopback(rtnl::Socket& container, const state::Record& record, Causes& causes) {
  const std::optional<rtnl::Link> lo = container.FindLink(rtnl::kLoopbackIndex);
  if (record.IsLive(cni::Part::kLoopback) && lo && !lo->up) {
    causes.push_back(Refused("'lo' is down", InsideFix(record, "ip link set lo up")));
  }
}

}  // namespace

Causes FindWhatCheckRefuses(Interior& inside) {
  auto& [netns, record, container, link] = inside;
  Causes causes;
  if (link && record.IsLive(cni::Part::kLink)) {
    LookAtName(*link, record, causes);
    LookAtPrefixes(container, *link, record, causes);
    LookAtIpv6Gateway(container, *link, record, causes);
  }
  LookAtLoopback(container, record, causes);
  return causes;
}

}  // namespace nomad_bridge::causes
