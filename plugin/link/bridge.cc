#include "plugin/link/bridge.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/text.h"
#include "netlink/core/sysctl.h"
#include "plugin/link/forwarding.h"
#include "plugin/link/given_gateways.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/liveness.h"
#include "plugin/link/subnet.h"
#include "plugin/link/uplink.h"
#include "plugin/link/vlan_gateway.h"

namespace nomad_bridge::link {
namespace {

using Area = Finding::Area;

constexpr int kLinkLocalPrefixBits = 64;

void RequireUsable(const rtnl::Link& link, const config::LinkSpec& spec) {
  if (link.kind != "bridge") {
    throw Error(Code::kInvalidConfig,
                Format("cannot create the bridge '{}': a link of that name exists and is no bridge",
                       spec.bridge),
                Format("its kind is '{}'; name another with the key 'bridge'",
                       link.kind.empty() ? "physical" : link.kind));
  }
  if (spec.port.vlans && !link.vlan_filtering) {
    // Not turned on here: other ports of the bridge may send frames with tags. With filtering the
    // bridge would drop these frames.
    throw Error(Code::kInvalidConfig,
                Format("bridge '{}' has no VLAN filtering", spec.bridge),
                Format("'vlan' and 'vlanTrunk' need it: name another bridge with the key 'bridge', "
                       "or turn it on with: ip link set {} type bridge vlan_filtering 1",
                       ShellWord(spec.bridge)));
  }
}

rtnl::Link CreateBridge(state::Host& host, const config::LinkSpec& spec) {
  // False means that another ADD was faster. The bridge exists either way.
  static_cast<void>(host.net.CreateBridge(spec.bridge,
                                          Mac::ForName(spec.bridge),
                                          MtuOf(host.net, spec.mtu),
                                          spec.port.vlans.has_value()));
  return host.net.RequireLink(spec.bridge);
}

void CheckIsUp(state::Host& host,
               const rtnl::Link& bridge,
               const config::LinkSpec& spec,
               Findings& findings) {
  rtnl::LinkChange change{.up = true};
  if (spec.promisc_mode) {
    change.promiscuous = true;
  }
  const bool lacks_mode = spec.promisc_mode && !bridge.promiscuous;
  if (!bridge.up || lacks_mode) {
    findings.Add({Area::kBridge,
                  bridge.name,
                  Format("bridge '{}' is {}", bridge.name, bridge.up ? "not promiscuous" : "down")},
                 [&] { host.net.Change(bridge, change); });
  }
}

// Returns whether `present` must not stay beside `wanted`: it is any other IPv4 address, or an
// overlapping IPv6 address.
bool Conflicts(const Cidr& present, const Cidr& wanted) {
  if (present.address.family() != wanted.address.family()) {
    return false;
  }
  return present.address.is_ipv4() || (!present.address.IsLinkLocal() && wanted.Overlaps(present));
}

bool MayRemoveAddresses(state::Host& host,
                        const rtnl::Link& bridge,
                        config::ForceAddress force_address) {
  switch (force_address) {
    case config::ForceAddress::kNo:
      return false;
    case config::ForceAddress::kOnOwnBridge:
      return IsOursAlone(host.net, bridge);
    case config::ForceAddress::kYes:
      break;
  }
  return true;
}

// Below this MTU the kernel removes IPv6 from a link altogether.
bool IsTooSmallForIpv6(const rtnl::Link& link) {
  return link.mtu < config::kMinIpv6Mtu;
}

// Compares the addresses of the gateway with the addresses that it should have.
class GatewayAddresses {
 public:
  GatewayAddresses(state::Host& host, BridgeAndGateway links, const state::Record& record)
      : host_(host),
        links_(std::move(links)),
        record_(record),
        others_(host, record.id),
        present_(host.net.Addresses(links_.gateway)) {}

  // Returns false if one of the addresses must not be assigned: then nothing is changed.
  bool Check(Findings& findings) {
    const rtnl::Link& gateway = links_.gateway;
    std::vector<Cidr> missing = Wanted();
    std::erase_if(missing, [&](const Cidr& wanted) { return Contains(present_, wanted); });
    if (AddObstacles(missing, findings)) {
      return false;
    }
    for (const Cidr& wanted : missing) {
      findings.Add({Area::kBridge,
                    gateway.name,
                    Format("address {} is missing on '{}'", wanted, gateway.name)},
                   [&] {
                     MakeRoomFor(wanted);
                     host_.net.EnsureAddress(gateway, wanted);
                     present_.push_back(wanted);
                   });
    }
    if (!missing.empty() && findings.is_repairing()) {
      RememberGateways(host_.net, record_);
    }
    if (gateway.up || findings.is_repairing()) {
      CheckRoutes(findings);
    }
    return true;
  }

 private:
  // With IPv6 on a bridge that we created, the gateway also gets the link-local address: the kernel
  // uses it as the source of neighbour solicitations. The kernel itself adds this address up to a
  // second after the link has a carrier, and then runs duplicate address detection on it.
  [[nodiscard]] std::vector<Cidr> Wanted() const {
    std::vector<Cidr> wanted = record_.link.gateways;
    if (IsTooSmallForIpv6(links_.gateway)) {
      std::erase_if(wanted, [](const Cidr& cidr) { return !cidr.address.is_ipv4(); });
    }
    if (HasFamily(wanted, Family::kIpv6) && IsMadeByUs(links_.bridge)) {
      wanted.push_back({links_.gateway.mac.LinkLocal(), kLinkLocalPrefixBits});
    }
    return wanted;
  }

  void CheckRoutes(Findings& findings) {
    const std::vector<Cidr> wanted = Wanted();
    for (const Cidr& container : record_.ipam.addresses) {
      const auto own = std::ranges::find_if(wanted, [&](const Cidr& each) {
        return each.Contains(container.address) && Contains(present_, each);
      });
      std::optional<Finding> detour =
          own == wanted.end()
              ? std::nullopt
              : FindDetour(host_.net, record_, links_.gateway, {.destination = container.address});
      if (detour && detour->is_repairable) {
        findings.Add(*std::move(detour),
                     [&] { host_.net.EnsureConnectedRoute(links_.gateway, *own); });
      } else if (detour) {
        findings.AddUnrepairable(*std::move(detour));
      }
    }
  }

  // Returns whether the gateway must not get one of the addresses.
  bool AddObstacles(const std::vector<Cidr>& missing, Findings& findings) {
    bool is_any = false;
    for (const Cidr& wanted : missing) {
      if (std::optional<Finding> obstacle = FindObstacleTo(wanted)) {
        findings.AddUnrepairable(*std::move(obstacle));
        is_any = true;
      }
    }
    return is_any;
  }

  // Returns why the gateway must not get the address `wanted`, which it lacks.
  std::optional<Finding> FindObstacleTo(const Cidr& wanted) {
    if (wanted.address.IsLinkLocal()) {
      return std::nullopt;
    }
    // A VRF has its own routes, so no route of the main table takes addresses of a gateway in a
    // VRF.
    std::optional<Finding> taker =
        links_.gateway.master == 0 ? FindTaker(host_.net, record_, wanted) : std::nullopt;
    return taker ? taker : FindHolder(wanted.address);
  }

  // Returns a finding if another machine on the bridge's LAN has the address. With two holders, the
  // LAN would lose its router.
  std::optional<Finding> FindHolder(const Ip& address) {
    const std::optional<Mac> holder =
        FindHolderOnLan(host_, links_.bridge, links_.gateway, address);
    if (!holder) {
      return std::nullopt;
    }
    return Finding{
        .area = Area::kBridge,
        .owner = record_.link.bridge,
        .text = Format("'isGateway' would give bridge '{}' the address {}, which another machine "
                       "on its LAN has: MAC {} answers",
                       record_.link.bridge,
                       address,
                       *holder),
        .fix = Fix::Advice(R"("isGateway": false in the conflist if that machine is the )"
                           R"(allocations' router; else another "gateway", or remove the address )"
                           "there"),
        .family = address.family()};
  }

  void MakeRoomFor(const Cidr& wanted) {
    for (const Cidr& cidr : present_) {
      if (Contains(record_.link.gateways, cidr) || !Conflicts(cidr, wanted) || IsOfANetwork(cidr)) {
        continue;
      }
      if (!MayRemoveAddresses(host_, links_.bridge, record_.link.force_address)) {
        throw Error(
            Code::kConflict,
            Format("bridge '{}' already has the address {}", links_.gateway.name, cidr),
            Format("this network wants {} there; remove it, or set 'isGateway' to false, or "
                   "'forceAddress' to true",
                   wanted));
      }
      host_.net.EnsureAddressGone(links_.gateway, cidr);
    }
  }

  // The address of another network's gateway stays, even while that network has no container.
  // Otherwise the result would depend on the order of ADDs and DELs. If /run was lost, the records
  // show the other network.
  bool IsOfANetwork(const Cidr& cidr) {
    return !FindNetworkOf(cidr, record_.id.network).empty() ||
           std::ranges::any_of(others_.records(), [&](const state::Record& other) {
             return other.link.gateway_ifname == links_.gateway.name &&
                    Contains(other.link.gateways, cidr);
           });
  }

  state::Host& host_;
  const BridgeAndGateway links_;
  const state::Record& record_;
  LiveAttachments others_;  // read only if another address conflicts
  std::vector<Cidr> present_;
};

Finding TooSmallForIpv6(const rtnl::Link& bridge, const rtnl::Link& gateway) {
  const rtnl::Link& small = IsTooSmallForIpv6(bridge) ? bridge : gateway;
  return {
      .area = Area::kBridge,
      .owner = bridge.name,
      .text = Format(
          "the MTU of '{}' is {}, and IPv6 needs {}", small.name, small.mtu, config::kMinIpv6Mtu),
      .fix = Format("ip link set {} mtu {} && nomad-bridge reconcile",
                    ShellWord(small.name),
                    config::kEthernetMtu)};
}

void CheckIpv6IsOn(const rtnl::Link& gateway, Findings& findings) {
  const std::string setting = netlink::Ipv6Setting(gateway.name, "disable_ipv6");
  if (!gateway.HasIpv6()) {
    findings.Add({Area::kBridge, gateway.name, Cat(setting, " is not 0")},
                 [&] { netlink::EnsureSysctl(setting, "0"); });
  }
}

// Checks all that a bridge needs. The bridge exists.
void CheckPresent(state::Host& host,
                  const rtnl::Link& bridge,
                  const state::Record& record,
                  Findings& findings) {
  const state::Record::Link& link = record.link;
  RequireUsable(bridge, link);
  if (!bridge.up) {
    // Before the bridge is up: while it is down, it receives no advertisement.
    CheckAdvertisements(host, bridge, bridge, findings);
  }
  CheckIsUp(host, bridge, link, findings);
  const std::optional<rtnl::Link> gateway =
      link.GatewayVlan() ? CheckVlanGateway(host, bridge, link, findings) : bridge;
  if (gateway) {
    const bool has_ipv6 = HasFamily(link.gateways, Family::kIpv6);
    if (has_ipv6 && IsTooSmallForIpv6(*gateway)) {
      findings.AddUnrepairable(TooSmallForIpv6(bridge, *gateway));
    } else if (has_ipv6) {
      CheckIpv6IsOn(*gateway, findings);  // before this the kernel accepts no IPv6 address
    }
    // Before forwarding: if an address is refused, forwarding must stay off.
    if (!GatewayAddresses(host, {.bridge = bridge, .gateway = *gateway}, record).Check(findings)) {
      return;
    }
    CheckForwarding(host, *gateway, link.gateways, findings);
  }
  if (bridge.up) {
    // Not earlier: if the bridge is refused, its setting must stay as it is.
    CheckAdvertisements(host, bridge, bridge, findings);
  }
  if (findings.is_repairing() && !IsMadeByUs(bridge)) {
    // Without a fixed MAC, the MAC of somebody else's bridge would change with our ports.
    host.net.FixMac(host.net.RequireLink(bridge.name));
  }
}

// Returns our bridge `name` if it now has another name and still has the gateway's address.
std::optional<rtnl::Link> FindRenamed(rtnl::Socket& net,
                                      const std::string& name,
                                      const std::vector<Cidr>& gateways) {
  if (gateways.empty() || !net.AllAddresses().contains(gateways.front().address)) {
    return std::nullopt;  // avoids a list of all links
  }
  for (const rtnl::Link& link : net.Links()) {
    if (link.kind == "bridge" && link.mac == Mac::ForName(name) &&
        Contains(net.Addresses(link), gateways.front())) {
      return link;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Finding> FindObstacle(state::Host& host, const state::Record& record) {
  const std::string& name = record.link.bridge;
  if (record.link.adopted) {
    // A bridge of ours would lack the uplink and the addresses of the operator's bridge.
    return Finding{
        .area = Area::kBridge,
        .owner = name,
        .text = Format("bridge '{}', which nomad-bridge did not make, is missing", name),
        .fix = Fix::Advice("make it again as it was, with its uplink and its addresses (your "
                           "network service does); then: nomad-bridge reconcile")};
  }
  if (!record.link.makes_bridge) {
    return Finding{.area = Area::kBridge,
                   .owner = name,
                   .text = Format("bridge '{}' of network '{}' is missing, and is not created, as "
                                  "'isGateway' is false",
                                  name,
                                  record.id.network),
                   .fix = Fix::Advice("make it with its uplink (your network service does), or set "
                                      "\"isGateway\": true in the conflist")};
  }
  const std::optional<rtnl::Link> renamed = FindRenamed(host.net, name, record.link.gateways);
  if (!renamed) {
    for (const Cidr& gateway : record.link.gateways) {
      if (std::optional<Finding> taker = FindTaker(host.net, record, gateway)) {
        return taker;
      }
    }
    return std::nullopt;
  }
  // With a second bridge the node would have two routes to the network, and would use only one.
  return Finding{.area = Area::kBridge,
                 .owner = name,
                 .text = Format("bridge '{}' is missing, and its address {} is on '{}'",
                                name,
                                record.link.gateways.front(),
                                renamed->name),
                 // Before Linux 6.2 a link can be renamed only while it is down.
                 .fix = Format("ip link set {} down && ip link set {} name {} && nomad-bridge "
                               "reconcile",
                               ShellWord(renamed->name),
                               ShellWord(renamed->name),
                               ShellWord(name))};
}

CheckedBridge CheckBridge(state::Host& host, const state::Record& record, Findings& findings) {
  const std::string& name = record.link.bridge;
  std::optional<rtnl::Link> bridge = host.net.FindLink(name);
  std::optional<Finding> obstacle = bridge ? std::nullopt : FindObstacle(host, record);
  if (obstacle) {
    // The obstacle may be the bridge itself, which another ADD has made since we looked.
    bridge = host.net.FindLink(name);
  }
  if (bridge) {
    CheckPresent(host, *bridge, record, findings);
    return {.link = std::move(bridge)};
  }
  if (obstacle) {
    findings.AddUnrepairable(*std::move(obstacle));
    return {};
  }
  findings.Add({Area::kBridge, name, Format("bridge '{}' is missing", name)},
               [&] { bridge = CreateBridge(host, record.link); });
  if (bridge) {
    Findings silent = Findings::Silently();  // a new bridge lacks everything
    CheckPresent(host, *bridge, record, silent);
    for (const Finding& left : silent.left()) {
      findings.AddUnrepairable(left);
    }
  }
  return {.link = bridge, .is_new = bridge.has_value()};
}

bool IsMadeByUs(const rtnl::Link& bridge) {
  return bridge.mac == Mac::ForName(bridge.name);
}

bool PassesIpChains(const rtnl::Link& bridge, Family family) {
  const bool is_ipv4 = family == Family::kIpv4;
  return (is_ipv4 ? bridge.nf_call.ipv4 : bridge.nf_call.ipv6) ||
         netlink::IsSysctlOn(Cat("net/bridge/bridge-nf-call-", is_ipv4 ? "iptables" : "ip6tables"));
}

bool IsOursAlone(rtnl::Socket& net, const rtnl::Link& bridge) {
  return IsMadeByUs(bridge) && !HasUplink(net, bridge);
}

void DescribeBridge(state::Host& host, state::Record& record) {
  state::Record::Link& link = record.link;
  const std::string name = link.bridge;
  if (name.empty()) {
    return;
  }
  // First, because its cost does not grow with the number of the bridge's ports.
  const std::optional<state::Record> neighbour = host.records.FindNeighbour(record.id);
  if (neighbour && neighbour->link.bridge == name &&
      FindHostVeth(host.net, neighbour->id, Recorded::kYes)) {
    link.adopted = neighbour->link.adopted;
    link.made_by_us = neighbour->link.made_by_us;
    return;
  }
  if (const std::optional<rtnl::Link> bridge = host.net.FindLink(name)) {
    link.adopted = !IsOursAlone(host.net, *bridge);
    link.made_by_us = IsMadeByUs(*bridge);
    // The kernel also finds a link by an alternative name, but packets come in by its name.
    link.bridge = bridge->name;
    link.gateway_ifname = link.gateway_ifname == name ? bridge->name : link.gateway_ifname;
    return;
  }
  // Attachments of another network may be waiting for the operator to restore the bridge.
  LiveAttachments others(host, record.id);
  link.adopted = std::ranges::any_of(others.records(), [&](const state::Record& other) {
    return other.link.bridge == name && other.link.adopted;
  });
  link.made_by_us = !link.adopted;
}

BridgeAndGateway RequireBridgeAndGateway(state::Host& host, const config::LinkSpec& link) {
  const rtnl::Link bridge = host.net.RequireLink(link.bridge);
  return {.bridge = bridge,
          .gateway = link.GatewayVlan() ? host.net.RequireLink(link.gateway_ifname) : bridge};
}

}  // namespace nomad_bridge::link
