#include "plugin/takeover/running.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "ipam/store.h"
#include "netlink/core/netns.h"
#include "plugin/cni/plugin_type.h"
#include "plugin/state/kernel_names.h"
#include "plugin/takeover/reference.h"

namespace nomad_bridge::takeover {
namespace {

// Returns the attachment whose interface `ifname` has `address` by its lease.
std::optional<AttachmentId> FindLeaseOf(const std::string& ifname, const Ip& address) {
  for (const char* const name : {"nomad-bridge", "bridge"}) {
    const std::string& data_dir = cni::TypeOf(name).defaults.data_dir;
    for (const std::string& network : Entries(data_dir)) {
      const auto owner = ipam::FindOwnerUnlocked(data_dir, network, address);
      if (owner && owner->ifname == ifname) {
        return AttachmentId{network, owner->container_id, ifname};
      }
    }
  }
  return std::nullopt;
}

// Returns the attachment of `inside`, the other end of `veth`; nullopt if no address has a lease.
std::optional<RunningAttachment> FindAttachment(rtnl::Socket& net,
                                                const rtnl::Link& inside,
                                                const rtnl::Link& veth) {
  RunningAttachment found{.host_veth = veth};
  for (const Cidr& cidr : net.Addresses(inside)) {
    const std::optional<AttachmentId> id = FindLeaseOf(inside.name, cidr.address);
    if (id && (found.addresses.empty() || *id == found.id)) {
      found.id = *id;
      found.addresses.push_back(cidr);
    }
  }
  return found.addresses.empty() ? std::nullopt : std::optional(std::move(found));
}

// Adds the attachments in `netns` that are behind one of `veths`.
void AddIn(const netlink::Netns& netns,
           const std::string& path,
           const state::Host& host,
           const std::vector<rtnl::Link>& veths,
           std::vector<RunningAttachment>& running) {
  rtnl::Socket inside = rtnl::Socket::In(netns);
  const std::optional<int> host_id = inside.FindNetnsId(host.netns);
  for (const rtnl::Link& link : inside.Links()) {
    const auto veth = std::ranges::find(veths, link.peer, &rtnl::Link::index);
    if (!host_id || link.peer_netns != host_id || veth == veths.end()) {
      continue;
    }
    if (std::optional<RunningAttachment> found = FindAttachment(inside, link, *veth)) {
      found->netns_path = path;
      running.push_back(*std::move(found));
    }
  }
}

}  // namespace

std::vector<rtnl::Link> ForeignVeths(const std::vector<rtnl::Link>& links) {
  std::vector<rtnl::Link> veths;
  std::ranges::copy_if(links, std::back_inserter(veths), [](const rtnl::Link& link) {
    return link.kind == "veth" && link.peer_netns && !state::ParseAlias(link.alias);
  });
  return veths;
}

std::vector<RunningAttachment> FindRunning(state::Host& host,
                                           const std::vector<rtnl::Link>& links) {
  std::vector<RunningAttachment> running;
  const std::vector<rtnl::Link> veths = ForeignVeths(links);
  if (veths.empty()) {
    return running;
  }
  netlink::ForEachNetns([&](const netlink::Netns& netns, const std::string& path) {
    if (netns.id() == host.netns.id()) {
      return;
    }
    try {
      AddIn(netns, path, host, veths, running);
    } catch (const Error&) {
      // Without CAP_SYS_ADMIN we cannot enter the namespace. Our own attachments are still shown.
    }
  });
  std::erase_if(running, [&](const RunningAttachment& each) { return host.records.Has(each.id); });
  if (host.nft.is_open()) {
    RuleDumps dumps(host.nft);
    for (RunningAttachment& each : running) {
      each.ports = PublishedPorts(each.id, dumps);
    }
  }
  return running;
}

}  // namespace nomad_bridge::takeover
