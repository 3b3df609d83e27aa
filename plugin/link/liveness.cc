#include "plugin/link/liveness.h"

#include <algorithm>

#include "plugin/link/host_veth.h"

namespace nomad_bridge::link {

namespace {

// Whether the recorded path leads to the recorded namespace.
bool IsInPlace(const state::Record& record) {
  const std::optional<netlink::Netns> netns = netlink::Netns::Find(record.netns_path);
  if (!netns || netns->id() != record.netns) {
    return false;
  }
  const std::optional<std::uint64_t>& cookie = record.netns.cookie;
  if (cookie == 0) {
    return !record.Has(cni::Part::kLink);  // its host veth would be there
  }
  return !cookie || cookie == rtnl::Socket::In(*netns).NetnsCookie();
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
         IsInPlace(record);
}

const std::vector<state::Record>& LiveAttachments::records() {
  if (!records_) {
    records_.emplace();
    for (const AttachmentId& id : host_.records.List("")) {
      std::optional<state::Record> record;
      if (id != except_ && (record = host_.records.Find(id)) && IsAlive(host_, *record)) {
        records_->push_back(*std::move(record));
      }
    }
  }
  return *records_;
}

}  // namespace nomad_bridge::link
