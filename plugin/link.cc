#include "plugin/link.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "netlink/sysctl.h"
#include "plugin/living.h"
#include "plugin/log.h"
#include "plugin/names.h"
#include "plugin/port.h"
#include "plugin/vlan_gate.h"

namespace nomad_bridge {
namespace {

constexpr int kScopeLink =
    253;  // RT_SCOPE_LINK: a destination on the link itself, so without a gateway

Link RequireLink(Rtnl& net, const std::string& name) {
  std::optional<Link> link = net.FindLink(name);
  if (!link) {
    throw Error(Code::kKernel,
                Cat("link ", Quoted(name), " has vanished while it was being set up"));
  }
  return *std::move(link);
}

// What was put right; said only if it was not the first time.
using Phrases = std::vector<std::string>;

Link FindOrCreateBridge(Host& host, const LinkConfig& config, Phrases& changes) {
  std::optional<Link> link = host.net.FindLink(config.bridge);
  if (!link) {
    // False means that another ADD was faster; then it is made all the same.
    if (host.net.CreateBridge(
            config.bridge, Mac::ForName(config.bridge), config.mtu, config.HasVlans())) {
      changes.push_back(Cat("bridge ", Quoted(config.bridge), ", which was gone"));
    }
    link = RequireLink(host.net, config.bridge);
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

// Gateways on `gate` that living attachments rely on, but for `except`.
std::vector<Cidr> GatewaysOfLiving(Host& host, const std::string& gate, const Attachment& except) {
  std::vector<Cidr> gateways;
  for (const Record& record : LivingOthers(host, except)) {
    if (record.gate == gate) {
      gateways.insert(gateways.end(), record.gateways.begin(), record.gateways.end());
    }
  }
  return gateways;
}

bool IsIn(const std::vector<Cidr>& list, const Cidr& cidr) {
  return std::find(list.begin(), list.end(), cidr) != list.end();
}

// An address that cannot stay beside `gateways`: any other of IPv4, an overlapping one of IPv6.
bool Disturbs(const Cidr& present, const std::vector<Cidr>& gateways) {
  if (present.address.IsLinkLocal() && !present.address.is_ipv4()) {
    return false;
  }
  return std::any_of(gateways.begin(), gateways.end(), [&](const Cidr& gateway) {
    return gateway.address.family() == present.address.family() &&
           (present.address.is_ipv4() || gateway.Overlaps(present));
  });
}

Phrases EnsureGateways(Host& host,
                       const Link& bridge,
                       const LinkConfig& config,
                       const std::vector<Cidr>& gateways,
                       const Attachment& except) {
  const std::vector<Cidr> present = host.net.Addresses(bridge);
  // Asked for only if something is in the way, or missing.
  std::optional<std::vector<Cidr>> needed;
  const auto is_needed = [&](const Cidr& cidr) {
    if (!needed) {
      needed = GatewaysOfLiving(host, bridge.name, except);
    }
    return IsIn(*needed, cidr);
  };
  for (const Cidr& cidr : present) {
    if (IsIn(gateways, cidr) || !Disturbs(cidr, gateways) || is_needed(cidr)) {
      continue;
    }
    if (!config.force_address) {
      throw Error(Code::kConflict,
                  Cat("bridge ", Quoted(bridge.name), " already has the address ", cidr),
                  Cat("this network wants ",
                      gateways.front(),
                      " there; remove it, or set 'forceAddress' to true"));
    }
    host.net.EnsureAddressGone(bridge, cidr);
  }
  Phrases changes;
  for (const Cidr& gateway : gateways) {
    if (!IsIn(present, gateway)) {
      host.net.EnsureAddress(bridge, gateway);
      if (is_needed(gateway)) {
        changes.push_back(Cat("address ", gateway, " of bridge ", Quoted(bridge.name)));
      }
    }
  }
  return changes;
}

bool HasFamily(const std::vector<Cidr>& cidrs, Family family) {
  return std::any_of(cidrs.begin(), cidrs.end(), [&](const Cidr& cidr) {
    return cidr.address.family() == family;
  });
}

// Tells the neighbours, who may know an address of `link` under another MAC.
void Announce(Guest& guest, const Link& link) {
  InNetns(guest.netns, [&] {
    EnsureSysctlIfPresent(Cat("net/ipv4/conf/", link.name, "/arp_notify"), "1");
    EnsureSysctlIfPresent(Cat("net/ipv6/conf/", link.name, "/ndisc_notify"), "1");
  });
  // The kernel announces a MAC that is set, also if it stays the same. What it announces when the
  // link comes up is lost: the bridge's port does not forward yet.
  guest.net.Change(link, {.mac = link.mac});
}

// fe80:: with what the kernel makes of a MAC (RFC 4291, appendix A).
Cidr LinkLocal(const Mac& mac) {
  constexpr std::uint8_t kUniversalBit = 0x02;
  constexpr int kPrefixBits = 64;
  const auto& m = mac.bytes;
  const auto first = static_cast<std::uint8_t>(m[0] ^ kUniversalBit);
  const std::array<std::uint8_t, 16> bytes = {
      0xfe, 0x80, 0, 0, 0, 0, 0, 0, first, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};
  return {Ip(bytes), kPrefixBits};
}

void SwitchOnIpv6(const std::string& link) {
  EnsureSysctl(Cat("net/ipv6/conf/", link, "/disable_ipv6"), "0");
}

void BringUpBridge(Host& host, const Link& bridge, const LinkConfig& config, Phrases& changes) {
  LinkChange change;
  if (!bridge.up) {
    change.up = true;
    if (changes.empty()) {  // a new one is down of course
      changes.push_back(Cat("bridge ", Quoted(bridge.name), ", which was down"));
    }
    if (bridge.mac == Mac::ForName(bridge.name)) {  // of our making: also if its maker was killed
      EnsureSysctlIfPresent(Cat("net/ipv6/conf/", bridge.name, "/accept_ra"), "0");
    }
  }
  if (config.promisc_mode && !bridge.promiscuous) {
    change.promiscuous = true;
  }
  if (change.up || change.promiscuous) {
    host.net.Change(bridge, change);
  }
}

void PrepareSysctls(Guest& guest, const Link& link, bool has_ipv6, bool enable_dad) {
  InNetns(guest.netns, [&] {
    if (has_ipv6) {
      SwitchOnIpv6(link.name);
      EnsureSysctl(Cat("net/ipv6/conf/", link.name, "/keep_addr_on_down"), "1");
    }
    if (enable_dad) {
      // Enhanced (RFC 7527): by hairpin mode the question comes back to who asked it.
      EnsureSysctlIfPresent(Cat("net/ipv6/conf/", link.name, "/enhanced_dad"), "1");
      EnsureSysctlIfPresent(Cat("net/ipv6/conf/", link.name, "/accept_dad"), "1");
    }
  });
}

// Until packets flow between the guest, its neighbours and the node.
void AwaitTraffic(Host& host,
                  Guest& guest,
                  const VethPair& veth,
                  const LinkConfig& config,
                  bool has_ipv6) {
  host.net.AwaitOperational(veth.host.name, FromNow(kPatience));
  if (has_ipv6) {
    // Until the kernel has noticed the guest's carrier, too, the guest has no route for multicast
    // and does not hear neighbours ask for it.
    guest.net.AwaitOperational(veth.guest.name, FromNow(kPatience));
  }
  // Until the kernel has noticed its first port's carrier, a bridge drops what the node sends.
  host.net.AwaitOperational(config.Gate(), FromNow(kPatience));
  if (config.enable_dad) {
    guest.net.AwaitAddresses(veth.guest, FromNow(kPatience));
  }
}

// A route without a gateway of its own goes by the first of its family.
void AddRoutes(Guest& guest, const Link& link, const Result& result) {
  for (Route route : result.routes) {
    const auto same_family = [&](const IpConfig& ip) {
      return ip.address.address.family() == route.destination.address.family() && ip.gateway;
    };
    const auto ip = std::find_if(result.ips.begin(), result.ips.end(), same_family);
    if (!route.gateway && ip != result.ips.end() && route.scope != kScopeLink) {
      route.gateway = ip->gateway;
    }
    guest.net.EnsureRoute(link, route);
  }
}

// Whether an attachment is there that has used the gate of this name.
bool IsInUse(Host& host, const std::string& gate) {
  const std::vector<Attachment> all = host.records.List("");
  return std::any_of(all.begin(), all.end(), [&](const Attachment& who) {
    const std::optional<Record> record = host.records.Find(who);
    return record && record->gate == gate && FindHostVeth(host.net, who, true);
  });
}

// The addresses that the node answers with on `gate`; `is_ours`: the bridge is of our making.
std::vector<Cidr> AddressesFor(const Link& gate, bool is_ours, const std::vector<Cidr>& gateways) {
  std::vector<Cidr> wanted = gateways;
  if (HasFamily(wanted, Family::kIpv6)) {
    SwitchOnIpv6(gate.name);
    if (is_ours) {
      // The kernel asks with it for the allocations it forwards to. Left to itself it makes it when
      // it notices the link's carrier, up to a second late, and then tries for another whether
      // anybody else has it.
      wanted.push_back(LinkLocal(gate.mac));
    }
  }
  return wanted;
}

void TurnOnForwarding(const std::vector<Cidr>& gateways, Phrases& changes) {
  if (HasFamily(gateways, Family::kIpv4) && EnsureSysctl("net/ipv4/ip_forward", "1")) {
    changes.emplace_back("net.ipv4.ip_forward, which was 0");
  }
  if (HasFamily(gateways, Family::kIpv6) && EnsureSysctl("net/ipv6/conf/all/forwarding", "1")) {
    changes.emplace_back("net.ipv6.conf.all.forwarding, which was 0");
  }
}

}  // namespace

Segment EnsureBridge(Host& host,
                     const LinkConfig& config,
                     const std::vector<Cidr>& gateways,
                     const Attachment& except) {
  Phrases changes;
  const Link bridge = FindOrCreateBridge(host, config, changes);
  BringUpBridge(host, bridge, config, changes);
  const Link gate =
      config.HasVlanGate()
          ? EnsureVlanGate(host, bridge, {.name = config.Gate(), .vlan = config.vlan}, changes)
          : bridge;
  const bool is_ours = bridge.mac == Mac::ForName(bridge.name);
  const Phrases gained =
      EnsureGateways(host, gate, config, AddressesFor(gate, is_ours, gateways), except);
  changes.insert(changes.end(), gained.begin(), gained.end());
  if (!is_ours) {
    host.net.FixMac(RequireLink(host.net, bridge.name));
  }
  TurnOnForwarding(gateways, changes);
  if (!changes.empty() && IsInUse(host, gate.name)) {
    for (const std::string& change : changes) {
      Say("mended ", change);
    }
  }
  return {.bridge = bridge, .gate = gate};
}

std::optional<Link> FindHostVeth(Rtnl& host, const Attachment& who, bool recorded) {
  std::optional<Link> link = host.FindLink(HostVethName(who));
  // The alias comes one message after the link: in between only the record says that it is ours.
  if (link &&
      (IsAliasOf(link->alias, who) || (recorded && link->kind == "veth" && link->alias.empty()))) {
    return link;
  }
  return std::nullopt;
}

void RefuseForeignInterface(Host& host, Guest& guest, const Attachment& who, bool recorded) {
  const std::optional<Link> present = guest.net.FindLink(who.ifname);
  if (!present) {
    return;
  }
  const std::optional<Link> ours = FindHostVeth(host.net, who, recorded);
  const bool is_pair = ours && present->kind == "veth" && present->peer == ours->index &&
                       ours->peer == present->index;
  if (!is_pair) {
    throw Error(
        Code::kConflict,
        Cat("interface ", Quoted(who.ifname), " already exists in the container's namespace"),
        "it was not made by nomad-bridge and is left alone; remove it, or use another CNI_IFNAME");
  }
}

void EnsureLinkGone(Host& host, const Attachment& who, bool recorded) {
  if (const std::optional<Link> ours = FindHostVeth(host.net, who, recorded)) {
    host.net.EnsureLinkGone(ours->name);
  }
}

void CreateVeth(Host& host, Guest& guest, const Link& bridge, const Record& record, int mtu) {
  const std::string name = HostVethName(record.who);
  host.net.CreateVeth({.host_name = name,
                       .host_mac = Mac::ForName(name),
                       .bridge = bridge.index,
                       .guest_name = record.who.ifname,
                       .guest_mac = record.GuestMac(),
                       .mtu = mtu},
                      guest.netns);
}

VethPair PlugIn(Host& host, Guest& guest, const Record& record) {
  const Link host_end = RequireLink(host.net, HostVethName(record.who));
  // Up only now: looking at a link that is up without a carrier makes the kernel wait.
  SetPort(host.net,
          host_end,
          record.port,
          record.GuestMac(),
          {.up = true, .alias = LinkAlias(record.who, record.labels)});
  return {.host = host_end, .guest = RequireLink(guest.net, record.who.ifname)};
}

void ConfigureGuest(Host& host,
                    Guest& guest,
                    const VethPair& veth,
                    const Result& result,
                    const LinkConfig& config) {
  if (config.disable_container_interface) {
    return;
  }
  std::vector<Cidr> addresses;
  for (const IpConfig& ip : result.ips) {
    addresses.push_back(ip.address);
  }
  PrepareSysctls(guest, veth.guest, HasFamily(addresses, Family::kIpv6), config.enable_dad);
  for (const Cidr& address : addresses) {
    guest.net.EnsureAddress(veth.guest, address, config.enable_dad);
  }
  guest.net.Change(veth.guest, {.up = true});
  AddRoutes(guest, veth.guest, result);
  AwaitTraffic(host, guest, veth, config, HasFamily(addresses, Family::kIpv6));
  const bool is_derived = std::all_of(addresses.begin(), addresses.end(), [&](const Cidr& cidr) {
    return veth.guest.mac == Mac::For(cidr.address);
  });
  if (!is_derived) {
    Announce(guest, veth.guest);
  }
}

void BringUpLoopback(Guest& guest) {
  guest.net.Change({.index = kLoopbackIndex, .name = "lo"}, {.up = true});
}

}  // namespace nomad_bridge
