#include "plugin/link/bridge.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "netlink/core/sysctl.h"
#include "plugin/link/gateway_addresses.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/vlan_gateway.h"

namespace nomad_bridge::link {
namespace {

// What was put right; said only if it was not the first time.
using Repairs = std::vector<std::string>;

rtnl::Link FindOrCreateBridge(state::Host& host,
                              const config::LinkConfig& config,
                              Repairs& changes) {
  std::optional<rtnl::Link> link = host.net.FindLink(config.bridge);
  if (!link) {
    // False means that another ADD was faster; then it is made all the same.
    if (host.net.CreateBridge(
            config.bridge, Mac::ForName(config.bridge), config.mtu, config.HasVlans())) {
      changes.push_back(Cat("bridge ", Quoted(config.bridge), ", which was gone"));
    }
    link = host.net.RequireLink(config.bridge);
  }
  if (link->kind != "bridge") {
    throw Error(Code::kInvalidConfig,
                Cat("bridge ",
                    Quoted(config.bridge),
                    " cannot be made: a link of that name exists and is no bridge"),
                Cat("its kind is ",
                    Quoted(link->kind.empty() ? "physical" : link->kind),
                    "; name another with the key 'bridge'"));
  }
  if (config.HasVlans() && !link->vlan_filtering) {
    // Not turned on here: that would cut off what its other ports send with tags.
    throw Error(Code::kInvalidConfig,
                Cat("bridge ", Quoted(config.bridge), " does not tell VLANs apart"),
                Cat("'vlan' and 'vlanTrunk' need it, and it was made without: name another with "
                    "the key 'bridge', or turn it on with: ip link set ",
                    config.bridge,
                    " type bridge vlan_filtering 1"));
  }
  return *std::move(link);
}

void BringUpBridge(state::Host& host,
                   const rtnl::Link& bridge,
                   const config::LinkConfig& config,
                   Repairs& changes) {
  rtnl::LinkChange change;
  if (!bridge.up) {
    change.up = true;
    if (changes.empty()) {  // a new one is down of course
      changes.push_back(Cat("bridge ", Quoted(bridge.name), ", which was down"));
    }
    if (bridge.mac == Mac::ForName(bridge.name)) {  // of our making: also if its maker was killed
      netlink::EnsureSysctlIfPresent(Cat("net/ipv6/conf/", bridge.name, "/accept_ra"), "0");
    }
  }
  if (config.promisc_mode && !bridge.promiscuous) {
    change.promiscuous = true;
  }
  if (change.up || change.promiscuous) {
    host.net.Change(bridge, change);
  }
}

// Whether an attachment is there that has used the gate of this name.
bool IsInUse(state::Host& host, const std::string& gateway_ifname) {
  const std::vector<AttachmentId> all = host.records.List("");
  return std::any_of(all.begin(), all.end(), [&](const AttachmentId& id) {
    const std::optional<state::Record> record = host.records.Find(id);
    return record && record->link.gateway_ifname == gateway_ifname &&
           FindHostVeth(host.net, id, true);
  });
}

void TurnOnForwarding(const std::vector<Cidr>& gateways, Repairs& changes) {
  if (HasFamily(gateways, Family::kIpv4) && netlink::EnsureSysctl("net/ipv4/ip_forward", "1")) {
    changes.emplace_back("net.ipv4.ip_forward, which was 0");
  }
  if (HasFamily(gateways, Family::kIpv6) &&
      netlink::EnsureSysctl("net/ipv6/conf/all/forwarding", "1")) {
    changes.emplace_back("net.ipv6.conf.all.forwarding, which was 0");
  }
}

}  // namespace

Segment EnsureBridge(state::Host& host,
                     const config::LinkConfig& config,
                     const std::vector<Cidr>& gateways,
                     const AttachmentId& except) {
  Repairs changes;
  const rtnl::Link bridge = FindOrCreateBridge(host, config, changes);
  BringUpBridge(host, bridge, config, changes);
  const rtnl::Link gateway =
      config.HasVlanGateway()
          ? EnsureVlanGateway(
                host, bridge, {.name = config.GatewayIfname(), .vlan = config.vlan}, changes)
          : bridge;
  const bool is_ours = bridge.mac == Mac::ForName(bridge.name);
  const Repairs gained =
      EnsureGateways(host, gateway, config, AddressesFor(gateway, is_ours, gateways), except);
  changes.insert(changes.end(), gained.begin(), gained.end());
  if (!is_ours) {
    host.net.FixMac(host.net.RequireLink(bridge.name));
  }
  TurnOnForwarding(gateways, changes);
  if (!changes.empty() && IsInUse(host, gateway.name)) {
    for (const std::string& change : changes) {
      LogLine("repaired ", change);
    }
  }
  return {.bridge = bridge, .gateway = gateway};
}

}  // namespace nomad_bridge::link
