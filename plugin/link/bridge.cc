#include "plugin/link/bridge.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/text.h"
#include "netlink/core/sysctl.h"
#include "plugin/link/forwarding.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/lan.h"
#include "plugin/link/liveness.h"
#include "plugin/link/uplink.h"
#include "plugin/link/vlan_gateway.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::link {
namespace {

using Area = Mismatch::Area;

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
    // Not turned on here: its other ports may send frames with tags, which would be dropped from
    // then.
    throw Error(Code::kInvalidConfig,
                Format("bridge '{}' has no VLAN filtering", spec.bridge),
                Format("'vlan' and 'vlanTrunk' need it: name another bridge with the key 'bridge', "
                       "or turn it on with: ip link set {} type bridge vlan_filtering 1",
                       ShellWord(spec.bridge)));
  }
}

rtnl::Link CreateBridge(state::Host& host, const config::LinkSpec& spec) {
  // False means that another ADD was faster: the bridge is there either way.
  static_cast<void>(host.net.CreateBridge(spec.bridge,
                                          Mac::ForName(spec.bridge),
                                          MtuOf(host.net, spec.mtu),
                                          spec.port.vlans.has_value()));
  return host.net.RequireLink(spec.bridge);
}

void CheckIsUp(state::Host& host,
               const rtnl::Link& bridge,
               const config::LinkSpec& spec,
               Mismatches& mismatches) {
  rtnl::LinkChange change{.up = true};
  if (spec.promisc_mode) {
    change.promiscuous = true;
  }
  const bool lacks_mode = spec.promisc_mode && !bridge.promiscuous;
  if (!bridge.up || lacks_mode) {
    mismatches.Add(
        {Area::kBridge,
         bridge.name,
         Format("bridge '{}' is {}", bridge.name, bridge.up ? "not promiscuous" : "down")},
        [&] { host.net.Change(bridge, change); });
  }
}

// Whether `present` cannot stay beside `wanted`: any other IPv4 address, an overlapping IPv6 one.
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
      return IsMadeByUs(bridge) && !HasUplink(host.net, bridge);
    case config::ForceAddress::kYes:
      break;
  }
  return true;
}

// The kernel then takes all of IPv6 from a link.
bool IsTooSmallForIpv6(const rtnl::Link& link) {
  return link.mtu < config::kMinIpv6Mtu;
}

// The addresses of the gateway, compared with those it is to have.
class GatewayAddresses {
 public:
  GatewayAddresses(state::Host& host,
                   Segment segment,
                   const state::Record::Link& link,
                   const AttachmentId& except)
      : host_(host),
        segment_(std::move(segment)),
        link_(link),
        others_(host, except),
        present_(host.net.Addresses(segment_.gateway)) {}

  void Check(Mismatches& mismatches) {
    const rtnl::Link& gateway = segment_.gateway;
    for (const Cidr& wanted : Wanted()) {
      if (!Contains(present_, wanted)) {
        mismatches.Add({Area::kBridge,
                        gateway.name,
                        Format("address {} is missing on '{}'", wanted, gateway.name)},
                       [&] {
                         MakeRoomFor(wanted);
                         host_.net.EnsureAddress(gateway, wanted);
                       });
      }
    }
  }

 private:
  // With IPv6 on a bridge that we created also the link-local address: the kernel uses it as the
  // source of neighbour solicitations. Left alone it adds it up to a second after the link has a
  // carrier, and then runs duplicate address detection on it.
  [[nodiscard]] std::vector<Cidr> Wanted() const {
    std::vector<Cidr> wanted = link_.gateways;
    if (IsTooSmallForIpv6(segment_.gateway)) {
      std::erase_if(wanted, [](const Cidr& cidr) { return !cidr.address.is_ipv4(); });
    }
    if (HasFamily(wanted, Family::kIpv6) && IsMadeByUs(segment_.bridge)) {
      wanted.push_back({segment_.gateway.mac.LinkLocal(), kLinkLocalPrefixBits});
    }
    return wanted;
  }

  void MakeRoomFor(const Cidr& wanted) {
    for (const Cidr& cidr : present_) {
      if (Contains(link_.gateways, cidr) || !Conflicts(cidr, wanted) || IsNeeded(cidr)) {
        continue;
      }
      if (!MayRemoveAddresses(host_, segment_.bridge, link_.force_address)) {
        throw Error(
            Code::kConflict,
            Format("bridge '{}' already has the address {}", segment_.gateway.name, cidr),
            Format("this network wants {} there; remove it, or set 'isGateway' to false, or "
                   "'forceAddress' to true",
                   wanted));
      }
      host_.net.EnsureAddressGone(segment_.gateway, cidr);
    }
  }

  bool IsNeeded(const Cidr& cidr) {
    return std::ranges::any_of(others_.records(), [&](const state::Record& other) {
      return other.link.gateway_ifname == segment_.gateway.name &&
             Contains(other.link.gateways, cidr);
    });
  }

  state::Host& host_;
  const Segment segment_;
  const state::Record::Link& link_;
  LiveAttachments others_;  // read only if an address is in the way
  std::vector<Cidr> present_;
};

Mismatch TooSmallForIpv6(const rtnl::Link& bridge, const rtnl::Link& gateway) {
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

void CheckIpv6IsOn(const rtnl::Link& gateway, Mismatches& mismatches) {
  const std::string setting = netlink::Ipv6Setting(gateway.name, "disable_ipv6");
  if (!gateway.HasIpv6()) {
    mismatches.Add({Area::kBridge, gateway.name, Cat(setting, " is not 0")},
                   [&] { netlink::EnsureSysctl(setting, "0"); });
  }
}

// Whether what a gateway lacked was lost. What no other attachment needs was never there for one
// that is being made, such as the first one of a second network on the bridge.
bool WasLost(state::Host& host, const state::Record& record) {
  const std::optional<state::Record> written = host.records.Find(record.id);
  if (written && !written->IsAny(state::Phase::kMaking)) {
    return true;
  }
  LiveAttachments others(host, record.id);
  return std::ranges::any_of(others.records(), [&](const state::Record& other) {
    return other.link.gateway_ifname == record.link.gateway_ifname &&
           std::ranges::all_of(record.link.gateways, [&](const Cidr& gateway) {
             return Contains(other.link.gateways, gateway);
           });
  });
}

enum class Bridge : std::uint8_t { kPresent, kNew };

void CheckSegment(state::Host& host,
                  const rtnl::Link& bridge,
                  const state::Record& record,
                  Bridge age,
                  Mismatches& mismatches) {
  const state::Record::Link& link = record.link;
  RequireUsable(bridge, link);
  if (!bridge.up) {
    CheckAdvertisements(host, bridge, bridge, mismatches);  // before it is up and hears them
  }
  CheckIsUp(host, bridge, link, mismatches);
  const std::optional<rtnl::Link> gateway =
      link.GatewayVlan() ? CheckVlanGateway(host, bridge, link, mismatches) : bridge;
  if (gateway) {
    Mismatches found(mismatches.mode());
    const bool has_ipv6 = HasFamily(link.gateways, Family::kIpv6);
    if (has_ipv6 && IsTooSmallForIpv6(*gateway)) {
      mismatches.AddUnrepairable(TooSmallForIpv6(bridge, *gateway));
    } else if (has_ipv6) {
      CheckIpv6IsOn(*gateway, found);  // no IPv6 address can be added before
    }
    GatewayAddresses(host, {.bridge = bridge, .gateway = *gateway}, link, record.id).Check(found);
    CheckForwarding(host, *gateway, link.gateways, found);
    const bool may_be_lost = age == Bridge::kPresent && !found.empty();
    if (may_be_lost && (!mismatches.is_repairing() || WasLost(host, record))) {
      mismatches.AddAll(std::move(found));
    }
  }
  if (bridge.up) {
    CheckAdvertisements(host, bridge, bridge, mismatches);  // not on a bridge that is refused
  }
  if (mismatches.is_repairing() && !IsMadeByUs(bridge)) {
    host.net.FixMac(host.net.RequireLink(bridge.name));
  }
}

// Whether ports of attachments that name the bridge `name` are on `bridge`.
bool HasPortsOf(state::Host& host, const rtnl::Link& bridge, const std::string& name) {
  std::set<std::string> ports;
  for (rtnl::Link& port : host.net.Ports(bridge.index)) {
    ports.insert(std::move(port.name));
  }
  return std::ranges::any_of(host.records.List(""), [&](const AttachmentId& id) {
    const std::optional<state::Record> record =
        ports.contains(state::HostVethName(id)) ? host.records.Find(id) : std::nullopt;
    return record && record->link.bridge == name;
  });
}

// The bridge called `name`, under a name that somebody else gave it: a second one beside it would
// have the gateway's addresses too, and the node's routes to one of them.
std::optional<rtnl::Link> FindRenamed(state::Host& host, const std::string& name) {
  const int index = KnownBridge(host, name).index;
  std::optional<rtnl::Link> link = index != 0 ? host.net.FindLink(index) : std::nullopt;
  return link && link->kind == "bridge" && HasPortsOf(host, *link, name) ? link : std::nullopt;
}

// One of ours gets its name back. Where it leads to a LAN, the node's own routes go by it. Returns
// the bridge of that name, if there is one now.
std::optional<rtnl::Link> CheckName(state::Host& host,
                                    const rtnl::Link& renamed,
                                    const std::string& name,
                                    Mismatches& mismatches) {
  Mismatch mismatch{
      Area::kBridge, name, Format("bridge '{}' was renamed to '{}'", name, renamed.name)};
  mismatch.part = kLinkName;
  const bool is_ours = renamed.mac == Mac::ForName(name) || KnownBridge(host, name).made;
  if (is_ours && !HasUplink(host.net, renamed)) {
    mismatches.Add(std::move(mismatch), [&] { host.net.Rename(renamed, name); });
  } else {
    mismatch.fix = Fix::Advice(
        "let the node's network service give it its name back; then: "
        "nomad-bridge reconcile");
    mismatches.AddUnrepairable(std::move(mismatch));
  }
  return host.net.FindLink(name);
}

}  // namespace

std::optional<rtnl::Link> CheckBridge(state::Host& host,
                                      const state::Record& record,
                                      Mismatches& mismatches) {
  const std::string& name = record.link.bridge;
  std::optional<rtnl::Link> bridge = host.net.FindLink(name);
  const std::optional<rtnl::Link> renamed = bridge ? std::nullopt : FindRenamed(host, name);
  if (renamed) {
    bridge = CheckName(host, *renamed, name, mismatches);
  }
  if (bridge) {
    CheckSegment(host, *bridge, record, Bridge::kPresent, mismatches);
  }
  if (bridge || renamed) {
    return bridge;
  }
  if (IsMissingBridgeOperators(host, record)) {
    mismatches.AddUnrepairable(
        {.area = Area::kBridge,
         .owner = name,
         .text = Format("bridge '{}', which is its operator's, is gone", name),
         .fix = Fix::Advice(
             Format("let the node's network service make it again{}; then: "
                    "nomad-bridge reconcile",
                    KnownBridge(host, name).uplinks.empty() ? "" : ", with its uplink"))});
    return bridge;
  }
  mismatches.Add({Area::kBridge, name, Format("bridge '{}' is missing", name)}, [&] {
    Mismatches implied(Mode::kRepair);  // a new one lacks all the rest as well
    bridge = CreateBridge(host, record.link);
    CheckSegment(host, *bridge, record, Bridge::kNew, implied);
    for (const Mismatch& left : implied.left()) {
      mismatches.AddUnrepairable(left);
    }
  });
  return bridge;
}

bool IsMadeByUs(const rtnl::Link& bridge) {
  return bridge.mac == Mac::ForName(bridge.name);
}

bool PassesIpChains(const rtnl::Link& bridge, Family family) {
  const bool is_ipv4 = family == Family::kIpv4;
  return (is_ipv4 ? bridge.nf_call.ipv4 : bridge.nf_call.ipv6) ||
         netlink::IsSysctlOn(Cat("net/bridge/bridge-nf-call-", is_ipv4 ? "iptables" : "ip6tables"));
}

state::Checkpoint::Bridge KnownBridge(state::Host& host, const std::string& name) {
  std::optional<state::Checkpoint> checkpoint = host.checkpoint.Find();
  return checkpoint ? std::move(checkpoint->bridges[name]) : state::Checkpoint::Bridge();
}

bool IsAbout(const state::Checkpoint::Bridge& known, const rtnl::Link& bridge) {
  return known.index == bridge.index && (known.made || !IsMadeByUs(bridge));
}

bool IsAdopted(state::Host& host, const std::string& bridge) {
  const std::optional<rtnl::Link> link = bridge.empty() ? std::nullopt : host.net.FindLink(bridge);
  if (!link || !IsMadeByUs(*link)) {
    return link.has_value();
  }
  const state::Checkpoint::Bridge known = KnownBridge(host, bridge);
  return (!IsAbout(known, *link) || !known.uplinks.empty()) &&
         HasUplink(host.net, *link, known.uplinks);
}

bool HasLostMac(state::Host& host, const rtnl::Link& bridge) {
  if (IsMadeByUs(bridge)) {
    return false;
  }
  const state::Checkpoint::Bridge known = KnownBridge(host, bridge.name);
  return known.made && known.index == bridge.index && known.uplinks.empty();
}

Segment RequireSegment(state::Host& host, const config::LinkSpec& link) {
  const rtnl::Link bridge = host.net.RequireLink(link.bridge);
  return {.bridge = bridge,
          .gateway = link.GatewayVlan() ? host.net.RequireLink(link.gateway_ifname) : bridge};
}

bool IsInUse(state::Host& host, const std::string& ifname) {
  const std::vector<AttachmentId> all = host.records.List("");
  return std::ranges::any_of(all, [&](const AttachmentId& id) {
    const std::optional<state::Record> record = host.records.Find(id);
    return record && (record->link.gateway_ifname == ifname || record->link.bridge == ifname) &&
           FindHostVeth(host.net, id, Recorded::kYes);
  });
}

}  // namespace nomad_bridge::link
