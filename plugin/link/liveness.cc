#include "plugin/link/liveness.h"

#include <algorithm>
#include <map>

#include "plugin/link/host_veth.h"

namespace nomad_bridge::link {
namespace {

// Whether `path` leads to the recorded namespace.
bool IsAt(const std::string& path, const state::Record& record) {
  const std::optional<netlink::Netns> netns = netlink::Netns::Find(path);
  if (!netns || netns->id() != record.netns) {
    return false;
  }
  return record.netns.cookie == 0 ? !record.Has(cni::Part::kLink)  // its host veth would be there
                                  : record.netns.cookie == rtnl::Socket::In(*netns).NetnsCookie();
}

// Of another plugin's link no end may be known: a macvlan has none, and an IPAM plugin is asked
// before there is one. Without the recorded path a process may hold the namespace nevertheless.
bool IsWithoutALinkAndHeld(state::Host& host, const state::Record& record) {
  if (record.Has(cni::Part::kLink) || !record.link.foreign_host_ifnames.empty()) {
    return false;
  }
  const std::optional<std::string> path = host.FindNetnsPath(record.netns.inode);
  return path && IsAt(*path, record);
}

}  // namespace

bool IsAlive(state::Host& host, const state::Record& record) {
  // First: the path can be gone before the namespace is, or not be visible in our mount namespace.
  const auto has_live_peer = [&](const std::optional<rtnl::Link>& veth) {
    return veth && veth->peer_netns && host.net.IsNetnsAlive(*veth->peer_netns);
  };
  return has_live_peer(FindHostVeth(host.net, record.id, Recorded::kYes)) ||
         std::ranges::any_of(
             record.link.foreign_host_ifnames,
             [&](const std::string& name) { return has_live_peer(host.net.FindLink(name)); }) ||
         IsAt(record.netns_path, record) || IsWithoutALinkAndHeld(host, record);
}

bool IsAlive(state::Host& host,
             const state::Record& record,
             const std::optional<rtnl::Link>& veth) {
  return (veth && veth->peer_netns) || IsAlive(host, record);
}

const std::set<Ip>& HeldAddresses::All() {
  if (!addresses_) {
    addresses_.emplace();
    AddInNamespaces();
    AddNeighbours();
  }
  return *addresses_;
}

void HeldAddresses::AddInNamespaces() {
  netlink::ForEachNetns([&](const netlink::Netns& netns, const std::string& /*path*/) {
    if (netns.id() != host_.netns.id()) {
      addresses_->merge(rtnl::Socket::In(netns).AllAddresses());
    }
  });
}

// The entry of a neighbour outlives it, for as long as there are few. Behind a bridge the FDB
// tells: what it knows of a port goes with the port.
void HeldAddresses::AddNeighbours() {
  std::set<Mac> behind_ports;
  for (const rtnl::FdbEntry& entry : host_.net.AllFdbEntries()) {
    if (entry.kind != rtnl::FdbEntry::Kind::kOwn) {
      behind_ports.insert(entry.mac);
    }
  }
  std::map<int, bool> has_fdb;  // by link
  for (const rtnl::Neighbour& neighbour : host_.net.Neighbours()) {
    const auto [known, is_new] = has_fdb.try_emplace(neighbour.link);
    if (is_new) {
      const std::optional<rtnl::Link> link = host_.net.FindLink(neighbour.link);
      known->second = link && (link->kind == "bridge" || link->kind == "vlan");
    }
    if (neighbour.permanent || !known->second || behind_ports.contains(neighbour.mac)) {
      addresses_->insert(neighbour.address);
    }
  }
}

const std::vector<state::Record>& LiveAttachments::records() {
  if (!records_) {
    records_.emplace();
    for (state::Record& record : host_.records.All()) {
      if (record.id != except_ && IsAlive(host_, record)) {
        records_->push_back(std::move(record));
      }
    }
  }
  return *records_;
}

}  // namespace nomad_bridge::link
