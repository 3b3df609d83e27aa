#include "plugin/link/bridge.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "netlink/core/sysctl.h"
#include "plugin/link/forwarding.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/liveness.h"
#include "plugin/link/uplink.h"
#include "plugin/link/vlan_gateway.h"

namespace nomad_bridge::link {
namespace {

constexpr int kLinkLocalPrefixBits = 64;

// "bridge 'nomad', which was down": logged only if an attachment relied on it.
using Repairs = std::vector<std::string>;

void RequireUsable(const rtnl::Link& link, const config::LinkConfig& config) {
  if (link.kind != "bridge") {
    throw Error(Code::kInvalidConfig,
                Format("cannot create the bridge '{}': a link of that name exists and is no bridge",
                       config.bridge),
                Format("its kind is '{}'; name another with the key 'bridge'",
                       link.kind.empty() ? "physical" : link.kind));
  }
  if (config.HasVlans() && !link.vlan_filtering) {
    // Not turned on here: its other ports may send frames with tags, which would be dropped from then.
    throw Error(Code::kInvalidConfig,
                Format("bridge '{}' has no VLAN filtering", config.bridge),
                Format("'vlan' and 'vlanTrunk' need it: name another bridge with the key 'bridge', "
                       "or turn it on with: ip link set {} type bridge vlan_filtering 1",
                       config.bridge));
  }
}

EnsuredLink FindOrCreateBridge(state::Host& host, const config::LinkConfig& config) {
  Repairs repairs;
  std::optional<rtnl::Link> link = host.net.FindLink(config.bridge);
  if (!link) {
    // False means that another ADD was faster: the bridge is there either way.
    if (host.net.CreateBridge(config.bridge,
                              Mac::ForName(config.bridge),
                              MtuOf(host.net, config),
                              config.HasVlans())) {
      repairs.push_back(Format("bridge '{}', which was gone", config.bridge));
    }
    link = host.net.RequireLink(config.bridge);
  }
  RequireUsable(*link, config);
  return {.link = *std::move(link), .repairs = std::move(repairs)};
}

enum class BridgeMaker { kWe, kSomebodyElse };

// Recognised by the MAC we give it.
BridgeMaker MakerOf(const rtnl::Link& bridge) {
  return bridge.mac == Mac::ForName(bridge.name) ? BridgeMaker::kWe : BridgeMaker::kSomebodyElse;
}

void BringUpBridge(state::Host& host, const rtnl::Link& bridge, const config::LinkConfig& config) {
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
  return std::ranges::any_of(all, [&](const AttachmentId& id) {
    const std::optional<state::Record> record = host.records.Find(id);
    return record && record->link.gateway_ifname == gateway_ifname &&
           FindHostVeth(host.net, id, Recorded::kYes);
  });
}

// Whether `present` cannot stay beside `gateways`: any other IPv4 address, an overlapping IPv6 one.
bool Conflicts(const Cidr& present, const std::vector<Cidr>& gateways) {
  if (present.address.IsLinkLocal() && !present.address.is_ipv4()) {
    return false;
  }
  return std::ranges::any_of(gateways, [&](const Cidr& gateway) {
    return gateway.address.family() == present.address.family() &&
           (present.address.is_ipv4() || gateway.Overlaps(present));
  });
}

// `gateways`; with IPv6 on a bridge that we created also the link-local address, which the kernel
// itself would add late.
std::vector<Cidr> AddressesFor(const rtnl::Link& gateway,
                               BridgeMaker maker,
                               const std::vector<Cidr>& gateways) {
  std::vector<Cidr> wanted = gateways;
  if (HasFamily(wanted, Family::kIpv6)) {
    netlink::EnsureSysctl(Cat("net/ipv6/conf/", gateway.name, "/disable_ipv6"), "0");
    if (maker == BridgeMaker::kWe) {
      // The kernel uses it as the source of neighbour solicitations. Left alone it adds it up to a
      // second after the link has a carrier, and then runs duplicate address detection on it.
      wanted.push_back({gateway.mac.LinkLocal(), kLinkLocalPrefixBits});
    }
  }
  return wanted;
}

bool MayRemoveAddresses(state::Host& host,
                        const rtnl::Link& bridge,
                        const config::LinkConfig& config) {
  switch (config.force_address) {
    case config::ForceAddress::kNo:
      return false;
    case config::ForceAddress::kOnOwnBridge:
      return MakerOf(bridge) == BridgeMaker::kWe && !HasUplink(host.net, bridge);
    case config::ForceAddress::kYes:
      break;
  }
  return true;
}

// Makes `gateways` addresses of the gateway of `segment`. Returns what a live attachment lacked until
// now: "address 10.0.0.1/24 of bridge 'nomad'".
Repairs EnsureGateways(state::Host& host,
                       const Segment& segment,
                       const config::LinkConfig& config,
                       const std::vector<Cidr>& gateways,
                       const AttachmentId& except) {
  const rtnl::Link& gateway = segment.gateway;
  LiveAttachments others(host, except);  // read only if an address is in the way, or missing
  const auto is_needed = [&](const Cidr& cidr) {
    return std::ranges::any_of(others.records(), [&](const state::Record& other) {
      return other.link.gateway_ifname == gateway.name && Contains(other.link.gateways, cidr);
    });
  };
  const std::vector<Cidr> present = host.net.Addresses(gateway);
  for (const Cidr& cidr : present) {
    if (Contains(gateways, cidr) || !Conflicts(cidr, gateways) || is_needed(cidr)) {
      continue;
    }
    if (!MayRemoveAddresses(host, segment.bridge, config)) {
      throw Error(Code::kConflict,
                  Format("bridge '{}' already has the address {}", gateway.name, cidr),
                  Format("this network wants {} there; remove it, or set 'isGateway' to false, or "
                         "'forceAddress' to true",
                         gateways.front()));
    }
    host.net.EnsureAddressGone(gateway, cidr);
  }
  Repairs repairs;
  for (const Cidr& cidr : gateways) {
    if (!Contains(present, cidr)) {
      host.net.EnsureAddress(gateway, cidr);
      if (is_needed(cidr)) {
        repairs.push_back(Format("address {} of bridge '{}'", cidr, gateway.name));
      }
    }
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
    repairs.push_back(Format("bridge '{}', which was down", bridge.name));
  }
  if (bridge.up && config.promisc_mode && !bridge.promiscuous) {
    repairs.push_back(Format("bridge '{}', which was not promiscuous", bridge.name));
  }
  if (!bridge.up) {
    static_cast<void>(EnsureNoAdvertisements(host, bridge, bridge));  // before it hears any
  }
  BringUpBridge(host, bridge, config);
  EnsuredLink gateway =
      config.HasVlanGateway()
          ? EnsureVlanGateway(host, bridge, {.name = config.GatewayIfname(), .vlan = config.vlan})
          : EnsuredLink{.link = bridge};
  Append(repairs, std::move(gateway.repairs));
  const BridgeMaker maker = MakerOf(bridge);
  Segment segment{.bridge = std::move(bridge), .gateway = std::move(gateway.link)};
  Append(repairs,
         EnsureGateways(
             host, segment, config, AddressesFor(segment.gateway, maker, gateways), except));
  if (maker == BridgeMaker::kSomebodyElse) {
    host.net.FixMac(host.net.RequireLink(config.bridge));
  }
  Append(repairs, EnsureNoAdvertisements(host, segment.bridge, segment.bridge));
  Append(repairs, EnsureForwarding(host, segment.gateway, gateways));
  if (!repairs.empty() && IsInUse(host, segment.gateway.name)) {
    for (const std::string& repair : repairs) {
      LogLine("repaired {}", repair);
    }
  }
  return segment;
}

}  // namespace nomad_bridge::link
