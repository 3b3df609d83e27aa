#include "plugin/mend.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "ipam/store.h"
#include "netlink/sysctl.h"
#include "plugin/flows.h"
#include "plugin/link.h"
#include "plugin/log.h"
#include "plugin/names.h"
#include "plugin/port.h"
#include "plugin/rules.h"
#include "plugin/vlan_gate.h"

namespace nomad_bridge {
namespace {

void Append(std::vector<std::string>& list, const std::vector<std::string>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

void MendPort(Host& host, const Link& bridge, const Attachment& who, const Link& veth) {
  const std::optional<Record> record = host.records.Find(who);
  if (!record || record->bridge != bridge.name || veth.master == bridge.index) {
    return;
  }
  host.net.Change(veth, {.up = true, .master = bridge.index});
  SetPort(host.net, veth, record->port, record->GuestMac());
  EnsureLocalhostReaches(*record);
  Say("mended ",
      veth.name,
      " of container ",
      Quoted(who.container_id),
      ": it was no port of ",
      Quoted(bridge.name),
      " any more");
}

// The host end of this attachment: up, and with the flags of its record.
void MendHostVeth(Host& host, const Record& record) {
  const std::optional<Link> veth = FindHostVeth(host.net, record.who, true);
  if (!veth) {
    return;
  }
  if (!veth->up) {
    host.net.Change(*veth, {.up = true});
    Say("mended ", veth->name, ", which was down");
  }
  const std::vector<std::string> faults =
      PortFaults(host.net, *veth, record.port, record.GuestMac());
  if (!faults.empty()) {
    SetPort(host.net, *veth, record.port, record.GuestMac());
  }
  for (const std::string& fault : faults) {
    Say("mended the ", fault, " of ", veth->name);
  }
  if (veth->operational) {
    // A bridge made anew drops what the node sends until it has noticed its ports' carrier.
    host.net.AwaitOperational(record.gate, FromNow(kPatience));
  }
}

// Of the addresses that `record` has leased, those that `store` does not know as its.
std::vector<Ip> LostLeases(const std::optional<ipam::Store>& store, const Record& record) {
  const ipam::Holder us{record.who.container_id, record.who.ifname};
  std::vector<Ip> lost;
  for (const Cidr& cidr : record.leases) {
    const std::optional<ipam::Holder> holder = store ? store->HolderOf(cidr.address) : std::nullopt;
    if (!holder || !holder->Covers(us)) {
      lost.push_back(cidr.address);
    }
  }
  return lost;
}

std::vector<std::string> LeaseFaults(const Record& record) {
  std::vector<std::string> faults;
  for (const Ip& address :
       LostLeases(ipam::Store::Find(record.data_dir, record.who.network), record)) {
    faults.push_back(Cat("the lease of ", address, " is missing"));
  }
  return faults;
}

// Nothing is written where nothing is lost: the disk may be full.
std::vector<std::string> MendLeases(const Record& record) {
  const ipam::Holder us{record.who.container_id, record.who.ifname};
  if (LostLeases(ipam::Store::Find(record.data_dir, record.who.network), record).empty()) {
    return {};
  }
  std::optional<ipam::Store> store = ipam::Store::Open(record.data_dir, record.who.network);
  std::vector<std::string> faults;
  for (const Ip& address : LostLeases(store, record)) {
    if (store->Reserve(address, us)) {
      Say("mended the lease of ", address, " for container ", Quoted(us.container_id));
    } else {
      const std::optional<ipam::Holder> holder = store->HolderOf(address);
      faults.push_back(Cat("the lease of ",
                           address,
                           " belongs to ",
                           holder ? Cat("container ", Quoted(holder->container_id)) : "nobody"));
    }
  }
  return faults;
}

// The gateway of its VLAN, if it is not the bridge.
std::optional<VlanGate> VlanGateOf(const Record& record) {
  if (!record.port.vlans || record.gate == record.bridge) {
    return std::nullopt;
  }
  return VlanGate{.name = record.gate, .vlan = record.port.vlans->untagged};
}

std::vector<std::string> BridgeFaults(Host& host, const Link& bridge, const Record& record) {
  std::vector<std::string> faults;
  if (!bridge.up) {
    faults.push_back(Cat("bridge ", Quoted(bridge.name), " is down"));
  }
  if (const std::optional<VlanGate> gate = VlanGateOf(record)) {
    Append(faults, VlanGateFaults(host, bridge, *gate));
  }
  const std::optional<Link> gate = host.net.FindLink(record.gate);
  const std::vector<Cidr> present = gate ? host.net.Addresses(*gate) : std::vector<Cidr>();
  for (const Cidr& gateway : record.gateways) {
    if (std::find(present.begin(), present.end(), gateway) == present.end()) {
      faults.push_back(Cat("address ", gateway, " is missing on ", Quoted(record.gate)));
    }
    const char* const forwarding =
        gateway.address.is_ipv4() ? "net/ipv4/ip_forward" : "net/ipv6/conf/all/forwarding";
    if (!IsSysctlOn(forwarding)) {
      faults.push_back(Cat(forwarding, " is 0"));
    }
  }
  return faults;
}

std::vector<std::string> HostVethFaults(Host& host,
                                        const Link& veth,
                                        const Link& bridge,
                                        const Record& record) {
  if (veth.master != bridge.index) {
    return {Cat(veth.name, " is no port of bridge ", Quoted(bridge.name))};
  }
  std::vector<std::string> faults;
  if (!veth.up) {
    faults.push_back(Cat(veth.name, " is down"));
  }
  for (const std::string& fault : PortFaults(host.net, veth, record.port, record.GuestMac())) {
    faults.push_back(Cat("the ", fault, " of ", veth.name, " was changed"));
  }
  return faults;
}

std::vector<std::string> LinkFaults(Host& host, const Record& record) {
  const std::optional<Link> bridge = host.net.FindLink(record.bridge);
  if (!bridge || bridge->kind != "bridge") {
    return {Cat("bridge ", Quoted(record.bridge), " is missing")};
  }
  std::vector<std::string> faults = BridgeFaults(host, *bridge, record);
  if (const std::optional<Link> veth = FindHostVeth(host.net, record.who, true)) {
    Append(faults, HostVethFaults(host, *veth, *bridge, record));
  }
  return faults;
}

}  // namespace

void MendPorts(Host& host, const Link& bridge, const std::string& network) {
  std::set<std::string> ports;
  for (Rtnl::Port& port : host.net.Ports(bridge.index)) {
    ports.insert(std::move(port.name));
  }
  for (const Attachment& who : host.records.List(network)) {
    if (ports.contains(HostVethName(who))) {
      continue;
    }
    if (const std::optional<Link> veth = FindHostVeth(host.net, who, true)) {
      MendPort(host, bridge, who, *veth);
    }
  }
}

std::vector<std::string> MendHostSide(Host& host, const LinkConfig& config, const Record& record) {
  if (config.bridge != record.bridge) {
    return {Cat("it is on bridge ",
                Quoted(record.bridge),
                ", and the config names ",
                Quoted(config.bridge))};
  }
  const Link bridge = EnsureBridge(host, config, record.gateways, {}).bridge;
  MendPorts(host, bridge, record.who.network);
  MendHostVeth(host, record);
  std::vector<std::string> faults = MendLeases(record);
  MendRules(host, record);
  EnsureLocalhostReaches(record);
  return faults;
}

std::vector<std::string> FaultsOfHostSide(Host& host, const Record& record) {
  std::vector<std::string> faults = LinkFaults(host, record);
  Append(faults, LeaseFaults(record));
  Append(faults, MissingRules(host, record));
  return faults;
}

}  // namespace nomad_bridge
