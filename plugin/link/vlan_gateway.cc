#include "plugin/link/vlan_gateway.h"

#include "base/error.h"
#include "base/text.h"
#include "plugin/link/forwarding.h"

namespace nomad_bridge::link {
namespace {

using Area = Finding::Area;

// Returns the membership that a VLAN link needs its bridge to have. The bridge stays in its other
// VLANs.
PortVlans MembershipIn(std::uint16_t vlan) {
  return {.tagged = {{.first = vlan, .last = vlan}}, .keep_default = true};
}

// Returns whether `link` is an end of a veth pair whose other end is a port of `bridge`. The
// reference plugin creates such a pair.
bool IsPair(state::Host& host, const rtnl::Link& link, const rtnl::Link& bridge) {
  const bool both_are_here = link.kind == "veth" && link.peer != 0 && !link.peer_netns;
  const std::optional<rtnl::Link> port =
      both_are_here ? host.net.FindLink(link.peer) : std::nullopt;
  return port && port->master == bridge.index;
}

void RequireGateway(state::Host& host,
                    const rtnl::Link& link,
                    const rtnl::Link& bridge,
                    std::uint16_t vlan) {
  const bool is_vlan = link.kind == "vlan" && link.peer == bridge.index && link.vlan == vlan;
  if (!is_vlan && !IsPair(host, link, bridge)) {
    throw Error(
        Code::kConflict,
        Format("cannot create the gateway '{}' of VLAN {}: a link of that name is something else",
               link.name,
               vlan),
        Format("it must be VLAN {} of bridge '{}'", vlan, bridge.name));
  }
}

void CheckGateway(state::Host& host,
                  const rtnl::Link& link,
                  const rtnl::Link& bridge,
                  std::uint16_t vlan,
                  Findings& findings) {
  RequireGateway(host, link, bridge, vlan);
  const auto differs = [&](const char* how, auto repair) {
    findings.Add({Area::kBridge, link.name, Format("gateway '{}' is {}", link.name, how)}, repair);
  };
  if (link.kind == "vlan" && !host.net.HasPortVlans(bridge, MembershipIn(vlan))) {
    differs("cut off from its VLAN", [&] { host.net.SetPortVlans(bridge, MembershipIn(vlan)); });
  }
  // Before the link is up: while it is down, it receives no advertisement.
  CheckAdvertisements(host, bridge, link, findings);
  if (!link.up) {
    differs("down", [&] { host.net.Change(link, {.up = true}); });
  }
}

}  // namespace

std::optional<rtnl::Link> CheckVlanGateway(state::Host& host,
                                           const rtnl::Link& bridge,
                                           const config::LinkSpec& spec,
                                           Findings& findings) {
  const std::string& name = spec.gateway_ifname;
  const std::uint16_t vlan = spec.GatewayVlan().value();
  std::optional<rtnl::Link> link = host.net.FindLink(name);
  if (link) {
    CheckGateway(host, *link, bridge, vlan, findings);
    return link;
  }
  findings.Add({Area::kBridge, name, Format("gateway '{}' is missing", name)}, [&] {
    // False means that another ADD was faster. The link exists either way.
    static_cast<void>(host.net.CreateVlanLink(name, bridge, vlan));
    link = host.net.RequireLink(name);
    Findings discarded(Mode::kRepair);  // a new link is down: no finding to report
    CheckGateway(host, *link, bridge, vlan, discarded);
  });
  return link;
}

}  // namespace nomad_bridge::link
