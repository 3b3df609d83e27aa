#include "plugin/link/vlan_gateway.h"

#include "base/error.h"
#include "base/list.h"
#include "base/text.h"
#include "netlink/core/sysctl.h"
#include "plugin/link/forwarding.h"

namespace nomad_bridge::link {
namespace {

// A VLAN link needs its bridge to be a member of the VLAN, besides those it is a member of already.
rtnl::PortVlans MembershipIn(const VlanGateway& gateway) {
  return {.tagged = {{.first = gateway.vlan, .last = gateway.vlan}}, .keep_default = true};
}

bool IsVlanLink(const rtnl::Link& link, const rtnl::Link& bridge, const VlanGateway& gateway) {
  return link.kind == "vlan" && link.peer == bridge.index && link.vlan == gateway.vlan;
}

// One end of a veth pair whose other end is a port of `bridge`: the reference plugin's.
bool IsPair(state::Host& host, const rtnl::Link& link, const rtnl::Link& bridge) {
  const bool both_are_here = link.kind == "veth" && link.peer != 0 && !link.peer_netns;
  const std::optional<rtnl::Link> port =
      both_are_here ? host.net.FindLink(link.peer) : std::nullopt;
  return port && port->master == bridge.index;
}

EnsuredLink FindOrCreate(state::Host& host, const rtnl::Link& bridge, const VlanGateway& gateway) {
  std::vector<std::string> repairs;
  std::optional<rtnl::Link> link = host.net.FindLink(gateway.name);
  if (!link) {
    // False means that another ADD was faster: the link is there either way.
    if (host.net.CreateVlanLink(gateway.name, bridge, gateway.vlan)) {
      repairs.push_back(Format("gateway '{}', which was gone", gateway.name));
    }
    link = host.net.FindLink(gateway.name);
  }
  if (!link || (!IsVlanLink(*link, bridge, gateway) && !IsPair(host, *link, bridge))) {
    throw Error(
        Code::kConflict,
        Format("cannot create the gateway '{}' of VLAN {}: a link of that name is something else",
               gateway.name,
               gateway.vlan),
        Format("it must be VLAN {} of bridge '{}'", gateway.vlan, bridge.name));
  }
  return {.link = *std::move(link), .repairs = std::move(repairs)};
}

}  // namespace

EnsuredLink EnsureVlanGateway(state::Host& host,
                              const rtnl::Link& bridge,
                              const VlanGateway& gateway) {
  EnsuredLink ensured = FindOrCreate(host, bridge, gateway);
  const rtnl::Link& link = ensured.link;
  if (link.kind == "vlan" && !host.net.HasPortVlans(bridge, MembershipIn(gateway))) {
    host.net.SetPortVlans(bridge, MembershipIn(gateway));
    ensured.repairs.push_back(
        Format("gateway '{}', which was cut off from its VLAN", gateway.name));
  }
  if (link.up) {
    Append(ensured.repairs, EnsureNoAdvertisements(host, bridge, link));
  } else {
    netlink::EnsureSysctlIfPresent(Cat("net/ipv6/conf/", gateway.name, "/accept_ra"), "0");
    host.net.Change(link, {.up = true});
    ensured.repairs.push_back(Format("gateway '{}', which was down", gateway.name));
  }
  return ensured;
}

std::vector<std::string> DiffVlanGateway(state::Host& host,
                                         const rtnl::Link& bridge,
                                         const VlanGateway& gateway) {
  const std::optional<rtnl::Link> link = host.net.FindLink(gateway.name);
  if (!link) {
    return {Format("gateway '{}' is missing", gateway.name)};
  }
  std::vector<std::string> mismatches;
  if (!link->up) {
    mismatches.push_back(Format("gateway '{}' is down", gateway.name));
  }
  if (link->kind == "vlan" && !host.net.HasPortVlans(bridge, MembershipIn(gateway))) {
    mismatches.push_back(Format("gateway '{}' is cut off from its VLAN", gateway.name));
  }
  Append(mismatches, DiffAdvertisements(host, bridge, gateway.name));
  return mismatches;
}

}  // namespace nomad_bridge::link
