#include "plugin/link/bridge.h"

#include <algorithm>
#include <utility>

#include "base/append.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "netlink/core/sysctl.h"
#include "plugin/link/gateway_addresses.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/vlan_gateway.h"

namespace nomad_bridge::link {
namespace {

// "bridge 'nomad', which was down": logged only if an attachment relied on it.
using Repairs = std::vector<std::string>;

void RequireUsable(const rtnl::Link& link, const config::LinkConfig& config) {
  if (link.kind != "bridge") {
    throw Error(Code::kInvalidConfig,
                Cat("cannot create the bridge ",
                    Quoted(config.bridge),
                    ": a link of that name exists and is no bridge"),
                Cat("its kind is ",
                    Quoted(link.kind.empty() ? "physical" : link.kind),
                    "; name another with the key 'bridge'"));
  }
  if (config.HasVlans() && !link.vlan_filtering) {
    // Not turned on here: its other ports may send frames with tags, which would be dropped from then.
    throw Error(Code::kInvalidConfig,
                Cat("bridge ", Quoted(config.bridge), " has no VLAN filtering"),
                Cat("'vlan' and 'vlanTrunk' need it: name another bridge with the key 'bridge', or "
                    "turn it on with: ip link set ",
                    config.bridge,
                    " type bridge vlan_filtering 1"));
  }
}

EnsuredLink FindOrCreateBridge(state::Host& host, const config::LinkConfig& config) {
  Repairs repairs;
  std::optional<rtnl::Link> link = host.net.FindLink(config.bridge);
  if (!link) {
    // False means that another ADD was faster: the bridge is there either way.
    if (host.net.CreateBridge(
            config.bridge, Mac::ForName(config.bridge), config.mtu, config.HasVlans())) {
      repairs.push_back(Cat("bridge ", Quoted(config.bridge), ", which was gone"));
    }
    link = host.net.RequireLink(config.bridge);
  }
  RequireUsable(*link, config);
  return {.link = *std::move(link), .repairs = std::move(repairs)};
}

// Recognised by the MAC we give it.
BridgeMaker MakerOf(const rtnl::Link& bridge) {
  return bridge.mac == Mac::ForName(bridge.name) ? BridgeMaker::kWe : BridgeMaker::kSomebodyElse;
}

void BringUpBridge(state::Host& host, const rtnl::Link& bridge, const config::LinkConfig& config) {
  if (!bridge.up && MakerOf(bridge) == BridgeMaker::kWe) {
    // Not where it is created: a process can be killed between the two.
    netlink::EnsureSysctlIfPresent(Cat("net/ipv6/conf/", bridge.name, "/accept_ra"), "0");
  }
  rtnl::LinkChange change{.up = true};
  if (config.promisc_mode) {
    change.promiscuous = true;
  }
  if (!bridge.up || (config.promisc_mode && !bridge.promiscuous)) {
    host.net.Change(bridge, change);
  }
}

// Whether an attachment with a host veth has used the gateway of this name.
bool IsInUse(state::Host& host, const std::string& gateway_ifname) {
  const std::vector<AttachmentId> all = host.records.List("");
  return std::any_of(all.begin(), all.end(), [&](const AttachmentId& id) {
    const std::optional<state::Record> record = host.records.Find(id);
    return record && record->link.gateway_ifname == gateway_ifname &&
           FindHostVeth(host.net, id, Recorded::kYes);
  });
}

Repairs TurnOnForwarding(const std::vector<Cidr>& gateways) {
  Repairs repairs;
  if (HasFamily(gateways, Family::kIpv4) && netlink::EnsureSysctl("net/ipv4/ip_forward", "1")) {
    repairs.emplace_back("net.ipv4.ip_forward, which was 0");
  }
  if (HasFamily(gateways, Family::kIpv6) &&
      netlink::EnsureSysctl("net/ipv6/conf/all/forwarding", "1")) {
    repairs.emplace_back("net.ipv6.conf.all.forwarding, which was 0");
  }
  return repairs;
}

}  // namespace

Segment EnsureBridge(state::Host& host,
                     const config::LinkConfig& config,
                     const std::vector<Cidr>& gateways,
                     const AttachmentId& except) {
  auto [bridge, repairs] = FindOrCreateBridge(host, config);
  if (!bridge.up && repairs.empty()) {  // a new one is down anyway
    repairs.push_back(Cat("bridge ", Quoted(bridge.name), ", which was down"));
  }
  BringUpBridge(host, bridge, config);
  EnsuredLink gateway =
      config.HasVlanGateway()
          ? EnsureVlanGateway(host, bridge, {.name = config.GatewayIfname(), .vlan = config.vlan})
          : EnsuredLink{.link = bridge, .repairs = {}};
  Append(repairs, std::move(gateway.repairs));
  const BridgeMaker maker = MakerOf(bridge);
  Append(repairs,
         EnsureGateways(
             host, gateway.link, config, AddressesFor(gateway.link, maker, gateways), except));
  if (maker == BridgeMaker::kSomebodyElse) {
    host.net.FixMac(host.net.RequireLink(bridge.name));
  }
  Append(repairs, TurnOnForwarding(gateways));
  if (!repairs.empty() && IsInUse(host, gateway.link.name)) {
    for (const std::string& repair : repairs) {
      LogLine("repaired ", repair);
    }
  }
  return {.bridge = std::move(bridge), .gateway = std::move(gateway.link)};
}

}  // namespace nomad_bridge::link
