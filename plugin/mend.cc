#include "plugin/mend.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "ipam/store.h"
#include "plugin/link.h"
#include "plugin/log.h"
#include "plugin/names.h"
#include "plugin/rules.h"

namespace nomad_bridge {
namespace {

void MendPort(Host& host, const Link& bridge, const Attachment& who, const Link& veth) {
  const std::optional<Record> record = host.records.Find(who);
  if (!record || record->bridge != bridge.name || veth.master == bridge.index) {
    return;
  }
  host.net.Change(veth, {.up = true, .master = bridge.index});
  if (record->hairpin) {
    host.net.SetPortFlags(veth, {.hairpin = true});
  }
  EnsureLocalhostReaches(*record);
  Say("mended ",
      veth.name,
      " of container ",
      Quoted(who.container_id),
      ": it was no port of ",
      Quoted(bridge.name),
      " any more");
}

void MendLeases(const Record& record) {
  ipam::Store store = ipam::Store::Open(record.data_dir, record.who.network);
  for (const Cidr& cidr : record.addresses) {
    if (store.Reserve(cidr.address, {record.who.container_id, record.who.ifname})) {
      Say("mended the lease of ", cidr.address, " for container ", Quoted(record.who.container_id));
    }
  }
}

std::vector<std::string> LeaseFaults(const Record& record) {
  std::vector<std::string> faults;
  const std::optional<ipam::Store> store = ipam::Store::Find(record.data_dir, record.who.network);
  for (const Cidr& cidr : record.addresses) {
    const ipam::Holder holder{record.who.container_id, record.who.ifname};
    if (!store || store->HolderOf(cidr.address) != holder) {
      faults.push_back(Cat("the lease of ", cidr.address, " is missing"));
    }
  }
  return faults;
}

std::vector<std::string> LinkFaults(Host& host, const Record& record) {
  const std::optional<Link> bridge = host.net.FindLink(record.bridge);
  if (!bridge || bridge->kind != "bridge") {
    return {Cat("bridge ", Quoted(record.bridge), " is missing")};
  }
  std::vector<std::string> faults;
  const std::vector<Cidr> present = host.net.Addresses(*bridge);
  for (const Cidr& gateway : record.gateways) {
    if (std::find(present.begin(), present.end(), gateway) == present.end()) {
      faults.push_back(Cat("address ", gateway, " is missing on bridge ", Quoted(record.bridge)));
    }
  }
  const std::optional<Link> veth = FindHostVeth(host.net, record.who, true);
  if (veth && veth->master != bridge->index) {
    faults.push_back(Cat(veth->name, " is no port of bridge ", Quoted(record.bridge)));
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

void MendHostSide(Host& host, const LinkConfig& config, const Record& record) {
  const Link bridge = EnsureBridge(host, config, record.gateways);
  MendPorts(host, bridge, record.who.network);
  MendLeases(record);
  MendRules(host, record);
  EnsureLocalhostReaches(record);
}

std::vector<std::string> FaultsOfHostSide(Host& host, const Record& record) {
  std::vector<std::string> faults = LinkFaults(host, record);
  for (const std::vector<std::string>& more : {LeaseFaults(record), MissingRules(host, record)}) {
    faults.insert(faults.end(), more.begin(), more.end());
  }
  return faults;
}

}  // namespace nomad_bridge
