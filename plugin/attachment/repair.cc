#include "plugin/attachment/repair.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "ipam/store.h"
#include "plugin/attachment/publish.h"
#include "plugin/link/bridge.h"
#include "plugin/link/forwarding.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/vlan_gateway.h"
#include "plugin/rules/converge.h"
#include "plugin/rules/port_side_effects.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::attachment {
namespace {

void RepairPort(state::Host& host,
                const rtnl::Link& bridge,
                const AttachmentId& id,
                const rtnl::Link& veth) {
  const std::optional<state::Record> record = host.records.Find(id);
  if (!record || !record->IsLive(cni::Part::kLink) || record->link.bridge != bridge.name ||
      veth.master == bridge.index) {
    return;
  }
  host.net.Change(veth, {.up = true, .master = bridge.index});
  // Read again: what it has as a port, such as the default VLAN, is to go.
  link::SetPort(
      host.net, host.net.RequireLink(veth.name), record->link.port, record->ContainerMac());
  rules::EnsureLocalhostReaches(host, *record);
  LogLine("repaired {} of container '{}', which was no port of '{}' any more",
          veth.name,
          id.container_id,
          bridge.name);
}

// Without its lock: a DEL of it may remove the link at any moment.
void RepairPortOfAnother(state::Host& host,
                         const rtnl::Link& bridge,
                         const AttachmentId& id,
                         const rtnl::Link& veth) {
  try {
    RepairPort(host, bridge, id, veth);
  } catch (const Error&) {
    if (link::FindHostVeth(host.net, id, link::Recorded::kYes)) {
      throw;
    }
  }
}

// Up, a port of `bridge`, and with the flags of its record.
void RepairHostVeth(state::Host& host, const rtnl::Link& bridge, const state::Record& record) {
  std::optional<rtnl::Link> veth = link::FindHostVeth(host.net, record.id, link::Recorded::kYes);
  if (!veth) {
    return;
  }
  if (veth->master != bridge.index) {
    RepairPort(host, bridge, record.id, *veth);
    veth = host.net.RequireLink(veth->name);
  }
  if (!veth->up) {
    host.net.Change(*veth, {.up = true});
    LogLine("repaired {}, which was down", veth->name);
  }
  const std::vector<std::string> mismatches =
      link::DiffBridgePort(host.net, *veth, record.link.port, record.ContainerMac());
  if (!mismatches.empty()) {
    link::SetPort(host.net, *veth, record.link.port, record.ContainerMac());
  }
  for (const std::string& mismatch : mismatches) {
    LogLine("repaired the {} of {}", mismatch, veth->name);
  }
  if (veth->operational && veth->forwarding) {
    // A new bridge drops what the node sends until it has noticed its ports' carrier.
    static_cast<void>(host.net.AwaitOperational(record.link.gateway_ifname, FromNow(kTimeout)));
  }
}

// The leases of `record` that `store` does not have as its.
std::vector<Ip> LostLeases(const std::optional<ipam::Store>& store, const state::Record& record) {
  std::vector<Ip> lost;
  for (const Cidr& cidr : record.ipam.leases) {
    const std::optional<ipam::LeaseOwner> owner =
        store ? store->FindOwner(cidr.address) : std::nullopt;
    if (!owner || !owner->Matches(ipam::OwnerOf(record.id))) {
      lost.push_back(cidr.address);
    }
  }
  return lost;
}

std::vector<std::string> DiffLeases(const state::Record& record) {
  std::vector<std::string> mismatches;
  for (const Ip& address :
       LostLeases(ipam::Store::OpenIfExists(record.ipam.data_dir, record.id.network), record)) {
    mismatches.push_back(Cat("the lease of ", address, " is missing"));
  }
  return mismatches;
}

// Writes nothing where nothing is lost: the disk may be full.
std::vector<std::string> RepairLeases(const state::Record& record) {
  if (DiffLeases(record).empty()) {
    return {};
  }
  std::vector<std::string> mismatches;
  std::optional store = ipam::Store::Open(record.ipam.data_dir, record.id.network);
  for (const Ip& address : LostLeases(store, record)) {
    if (store->Reserve(address, ipam::OwnerOf(record.id))) {
      LogLine("repaired the lease of {} for container '{}'", address, record.id.container_id);
    } else {
      const std::optional<ipam::LeaseOwner> owner = store->FindOwner(address);
      mismatches.push_back(
          Format("the lease of {} belongs to {}",
                 address,
                 owner ? Format("container '{}'", owner->container_id) : "nobody"));
    }
  }
  return mismatches;
}

// nullopt if the bridge itself is the gateway.
std::optional<link::VlanGateway> VlanGatewayOf(const state::Record& record) {
  if (!record.link.port.vlans || record.link.gateway_ifname == record.link.bridge) {
    return std::nullopt;
  }
  return link::VlanGateway{.name = record.link.gateway_ifname,
                           .vlan = record.link.port.vlans->untagged};
}

std::vector<std::string> DiffGateway(state::Host& host, const state::Record& record) {
  const std::optional<rtnl::Link> link = host.net.FindLink(record.link.gateway_ifname);
  const std::vector<Cidr> present = link ? host.net.Addresses(*link) : std::vector<Cidr>();
  std::vector<std::string> mismatches;
  for (const Cidr& gateway : record.link.gateways) {
    if (!Contains(present, gateway)) {
      mismatches.push_back(
          Format("address {} is missing on '{}'", gateway, record.link.gateway_ifname));
    }
  }
  Append(mismatches, link::DiffForwarding(record.link.gateway_ifname, record.link.gateways));
  return mismatches;
}

std::vector<std::string> DiffBridge(state::Host& host,
                                    const rtnl::Link& bridge,
                                    const state::Record& record) {
  std::vector<std::string> mismatches;
  if (!bridge.up) {
    mismatches.push_back(Format("bridge '{}' is down", bridge.name));
  }
  if (record.link.promisc_mode && !bridge.promiscuous) {
    mismatches.push_back(Format("bridge '{}' is not promiscuous", bridge.name));
  }
  Append(mismatches, link::DiffAdvertisements(host, bridge, bridge.name));
  if (const std::optional<link::VlanGateway> gateway = VlanGatewayOf(record)) {
    Append(mismatches, link::DiffVlanGateway(host, bridge, *gateway));
  }
  Append(mismatches, DiffGateway(host, record));
  return mismatches;
}

std::vector<std::string> DiffHostVeth(state::Host& host, const state::Record& record) {
  const std::optional<rtnl::Link> veth =
      link::FindHostVeth(host.net, record.id, link::Recorded::kYes);
  if (!veth) {  // nobody can repair that: the allocation has to be started anew
    return {Format("{} is gone, and the container's interface with it",
                   state::HostVethName(record.id))};
  }
  const std::optional<rtnl::Link> bridge = host.net.FindLink(record.link.bridge);
  if (!bridge || veth->master != bridge->index) {
    return {Format("{} is no port of bridge '{}'", veth->name, record.link.bridge)};
  }
  std::vector<std::string> mismatches;
  if (!veth->up) {
    mismatches.push_back(Cat(veth->name, " is down"));
  }
  for (const std::string& mismatch :
       link::DiffBridgePort(host.net, *veth, record.link.port, record.ContainerMac())) {
    mismatches.push_back(Format("the {} of {} was changed", mismatch, veth->name));
  }
  return mismatches;
}

// As far as a record tells.
config::LinkConfig LinkConfigOf(const state::Record& record) {
  config::LinkConfig config{.bridge = record.link.bridge,
                            .mtu = record.link.mtu,
                            .is_gateway = !record.link.gateways.empty(),
                            .force_address = record.link.force_address,
                            .promisc_mode = record.link.promisc_mode};
  if (record.link.port.vlans) {
    config.vlan = VlanGatewayOf(record) ? record.link.port.vlans->untagged : 0;
    config.vlan_trunk = {{.first = 1, .last = 1}};  // the bridge filters VLANs
  }
  return config;
}

}  // namespace

void RepairPortsOfNewBridge(state::Host& host, const rtnl::Link& bridge) {
  const std::optional<state::Checkpoint> checkpoint = host.checkpoint.Find();
  const bool is_known = checkpoint && checkpoint->bridges.contains(bridge.name) &&
                        checkpoint->bridges.at(bridge.name) == bridge.index;
  if (is_known) {
    return;
  }
  std::set<std::string> ports;
  for (rtnl::Socket::Port& port : host.net.Ports(bridge.index)) {
    ports.insert(std::move(port.name));
  }
  for (const AttachmentId& id : host.records.List("")) {
    if (ports.contains(state::HostVethName(id))) {
      continue;
    }
    if (const std::optional<rtnl::Link> veth =
            link::FindHostVeth(host.net, id, link::Recorded::kYes)) {
      RepairPortOfAnother(host, bridge, id, *veth);
    }
  }
  rules::UpdateCheckpoint(host,
                          [&](state::Checkpoint& now) { now.bridges[bridge.name] = bridge.index; });
}

void RepairSegment(state::Host& host, const state::Record& record) {
  if (record.IsLive(cni::Part::kLink)) {
    RepairPortsOfNewBridge(
        host, link::EnsureBridge(host, LinkConfigOf(record), record.link.gateways, {}).bridge);
  }
  if (record.IsLive(cni::Part::kPorts)) {
    for (const std::string& mismatch : rules::DiffLocalhostReaches(host, record)) {
      LogLine("repaired the way to published ports by 127.0.0.1: {}", mismatch);
    }
    rules::EnsureLocalhostReaches(host, record);
  }
}

std::vector<std::string> DiffSegment(state::Host& host, const state::Record& record) {
  std::vector<std::string> mismatches;
  if (record.IsLive(cni::Part::kPorts)) {
    mismatches = rules::DiffLocalhostReaches(host, record);
  }
  if (!record.IsLive(cni::Part::kLink)) {
    return mismatches;
  }
  const std::optional<rtnl::Link> bridge = host.net.FindLink(record.link.bridge);
  if (!bridge || bridge->kind != "bridge") {
    return {Format("bridge '{}' is missing", record.link.bridge)};
  }
  Append(mismatches, DiffBridge(host, *bridge, record));
  return mismatches;
}

std::vector<std::string> RepairOwn(state::Host& host, const state::Record& record) {
  std::vector<std::string> mismatches;
  if (record.IsLive(cni::Part::kLink)) {
    RepairHostVeth(host, host.net.RequireLink(record.link.bridge), record);
    mismatches = DiffHostVeth(host, record);
  }
  if (record.IsLive(cni::Part::kAddress)) {
    Append(mismatches, RepairLeases(record));
  }
  return mismatches;
}

std::vector<std::string> DiffOwn(state::Host& host, const state::Record& record) {
  std::vector<std::string> mismatches;
  if (record.IsLive(cni::Part::kLink)) {
    mismatches = DiffHostVeth(host, record);
  }
  if (record.IsLive(cni::Part::kAddress)) {
    Append(mismatches, DiffLeases(record));
  }
  return mismatches;
}

std::vector<std::string> RepairHostSide(state::Host& host,
                                        const config::LinkConfig& config,
                                        const state::Record& record) {
  if (config.bridge != record.link.bridge) {
    return {Format(
        "it is on bridge '{}', and the config names '{}'", record.link.bridge, config.bridge)};
  }
  const rtnl::Link bridge = link::EnsureBridge(host, config, record.link.gateways, {}).bridge;
  RepairPortsOfNewBridge(host, bridge);
  RepairHostVeth(host, bridge, record);
  std::vector<std::string> mismatches = RepairLeases(record);
  RepairRules(host, record);
  rules::EnsureLocalhostReaches(host, record);
  return mismatches;
}

std::vector<std::string> DiffHostSide(state::Host& host, const state::Record& record) {
  std::vector<std::string> mismatches = DiffSegment(host, record);
  Append(mismatches, DiffOwn(host, record));
  Append(mismatches, rules::DiffRules(host, record));
  return mismatches;
}

}  // namespace nomad_bridge::attachment
