#include "plugin/link/liveness.h"

#include <algorithm>

#include "plugin/link/host_veth.h"

namespace nomad_bridge::link {

bool IsAlive(state::Host& host, const state::Record& record) {
  const std::optional<netlink::Netns> netns = netlink::Netns::Find(record.netns_path);
  if (netns && netns->id() == record.netns) {
    return true;
  }
  // The path can be gone before the namespace is, or not be visible in our mount namespace.
  const auto has_live_peer = [&](const std::optional<rtnl::Link>& veth) {
    return veth && veth->peer_netns && host.net.IsNetnsAlive(*veth->peer_netns);
  };
  return has_live_peer(FindHostVeth(host.net, record.id, Recorded::kYes)) ||
         std::ranges::any_of(record.link.foreign_host_ifnames, [&](const std::string& name) {
           return has_live_peer(host.net.FindLink(name));
         });
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
