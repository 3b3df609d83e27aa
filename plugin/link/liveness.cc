#include "plugin/link/liveness.h"

#include <algorithm>
#include <map>

#include "base/memo.h"
#include "plugin/link/host_veth.h"

namespace nomad_bridge::link {
namespace {

// Returns whether `path` leads to the recorded namespace.
bool IsAt(const std::string& path, const state::Record& record) {
  const std::optional<netlink::Netns> netns = netlink::Netns::Find(path);
  if (!netns || netns->id() != record.netns) {
    return false;
  }
  // Without a cookie, only its host veth shows whether an attachment with a link of ours is alive.
  return record.netns.cookie == 0 ? !record.Has(cni::Part::kLink)
                                  : record.netns.cookie == rtnl::Socket::In(*netns).NetnsCookie();
}

// Returns whether the record has no host end and a process or a mount holds its namespace. Another
// plugin's link may have no host end: a macvlan has none, and an IPAM plugin runs before there is a
// link. A process may hold the namespace even if the recorded path is gone.
bool IsWithoutALinkAndHeld(state::Host& host, const state::Record& record) {
  if (record.Has(cni::Part::kLink) || !record.link.foreign_host_ifnames.empty()) {
    return false;
  }
  const std::optional<std::string> path = host.FindNetnsPath(record.netns.inode);
  return path && IsAt(*path, record);
}

}  // namespace

bool IsAlive(state::Host& host, const state::Record& record) {
  // The veth first: the path can disappear before the namespace, or not be visible in our mount
  // namespace.
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
    for (AttachmentId& id : host_.records.List("")) {
      recorded_.emplace(state::HostVethName(id), std::move(id));
    }
    AddInNamespaces();
    AddNeighbours();
  }
  return *addresses_;
}

void HeldAddresses::AddInNamespaces() {
  netlink::ForEachNetns([&](const netlink::Netns& netns, const std::string& /*path*/) {
    if (netns.id() != host_.netns.id()) {
      AddIn(netns);
    }
  });
}

void HeldAddresses::AddIn(const netlink::Netns& netns) {
  rtnl::Socket inside = rtnl::Socket::In(netns);
  const std::vector<rtnl::Link> links = inside.Links();
  const std::optional<int> host_id = inside.FindNetnsId(host_.netns);
  for (const rtnl::Link& link : links) {
    if (host_id && link.peer_netns == host_id) {
      const std::optional<state::Record>& record = RecordOf(link.peer);
      for (const Cidr& cidr : record ? record->ipam.addresses : inside.Addresses(link)) {
        addresses_->insert(cidr.address);
      }
    }
  }
}

const std::optional<state::Record>& HeldAddresses::RecordOf(int host_end) {
  return AskOnce(records_, host_end, [&]() -> std::optional<state::Record> {
    const std::optional<rtnl::Link> link = host_.net.FindLink(host_end);
    const auto id = link ? recorded_.find(link->name) : recorded_.end();
    return id == recorded_.end() ? std::nullopt : host_.records.Find(id->second);
  });
}

// While the kernel has few neighbour entries, it also keeps the entry of a neighbour that is gone.
// Behind a bridge the FDB shows whether the neighbour is there: the kernel deletes a port's FDB
// entries with the port.
void HeldAddresses::AddNeighbours() {
  std::set<Mac> behind_ports;
  for (const rtnl::FdbEntry& entry : host_.net.AllFdbEntries()) {
    if (entry.kind != rtnl::FdbEntry::Kind::kOwn && !RecordOf(entry.port)) {
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
