#include "plugin/vlan_gate.h"

#include "base/error.h"
#include "base/text.h"
#include "netlink/sysctl.h"

namespace nomad_bridge {
namespace {

// A link on the bridge needs the bridge to be a member of the VLAN, besides what it is else.
PortVlans MembershipIn(const VlanGate& gate) {
  return {.tagged = {{.first = gate.vlan, .last = gate.vlan}}, .keep_default = true};
}

bool IsVlanLink(const Link& link, const Link& bridge, const VlanGate& gate) {
  return link.kind == "vlan" && link.peer == bridge.index && link.vlan == gate.vlan;
}

// One end of a veth pair whose other end is a port of `bridge`: the reference plugin's.
bool IsPair(Host& host, const Link& link, const Link& bridge) {
  const bool both_are_here = link.kind == "veth" && link.peer != 0 && !link.peer_netns;
  const std::optional<Link> port = both_are_here ? host.net.FindLink(link.peer) : std::nullopt;
  return port && port->master == bridge.index;
}

Link FindOrMake(Host& host,
                const Link& bridge,
                const VlanGate& gate,
                std::vector<std::string>& changes) {
  std::optional<Link> link = host.net.FindLink(gate.name);
  if (!link) {
    // False means that another ADD was faster; then it is made all the same.
    if (host.net.CreateVlanLink(gate.name, bridge, gate.vlan)) {
      changes.push_back(Cat("gateway ", Quoted(gate.name), ", which was gone"));
    }
    link = host.net.FindLink(gate.name);
  }
  if (!link || (!IsVlanLink(*link, bridge, gate) && !IsPair(host, *link, bridge))) {
    throw Error(Code::kConflict,
                Cat("the gateway ",
                    Quoted(gate.name),
                    " of VLAN ",
                    gate.vlan,
                    " cannot be made: a link of that name is something else"),
                Cat("it must be VLAN ", gate.vlan, " of bridge ", Quoted(bridge.name)));
  }
  return *std::move(link);
}

}  // namespace

Link EnsureVlanGate(Host& host,
                    const Link& bridge,
                    const VlanGate& gate,
                    std::vector<std::string>& changes) {
  Link link = FindOrMake(host, bridge, gate, changes);
  if (link.kind == "vlan" && !host.net.HasPortVlans(bridge, MembershipIn(gate))) {
    host.net.SetPortVlans(bridge, MembershipIn(gate));
    changes.push_back(Cat("gateway ", Quoted(gate.name), ", which was cut off from its VLAN"));
  }
  if (!link.up) {
    EnsureSysctlIfPresent(Cat("net/ipv6/conf/", gate.name, "/accept_ra"), "0");
    host.net.Change(link, {.up = true});
    changes.push_back(Cat("gateway ", Quoted(gate.name), ", which was down"));
  }
  return link;
}

std::vector<std::string> VlanGateFaults(Host& host, const Link& bridge, const VlanGate& gate) {
  const std::optional<Link> link = host.net.FindLink(gate.name);
  if (!link) {
    return {Cat("gateway ", Quoted(gate.name), " is missing")};
  }
  std::vector<std::string> faults;
  if (!link->up) {
    faults.push_back(Cat("gateway ", Quoted(gate.name), " is down"));
  }
  if (link->kind == "vlan" && !host.net.HasPortVlans(bridge, MembershipIn(gate))) {
    faults.push_back(Cat("gateway ", Quoted(gate.name), " is cut off from its VLAN"));
  }
  return faults;
}

}  // namespace nomad_bridge
