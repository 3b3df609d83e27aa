#include "plugin/link/liveness.h"

#include <algorithm>

#include "plugin/link/host_veth.h"

namespace nomad_bridge::link {
bool IsAlive(state::Host& host, const state::Record& record) {
  const std::optional<netlink::Netns> netns = netlink::Netns::Find(record.netns_path);
  if (netns && netns->id() == record.netns) {
    return true;
  }
  // The path is a name, and a name can go before the namespace does (or be out of our sight).
  const auto leads_somewhere = [&](const std::optional<rtnl::Link>& veth) {
    return veth && veth->peer_netns && host.net.IsNetnsAlive(*veth->peer_netns);
  };
  return leads_somewhere(FindHostVeth(host.net, record.id, true)) ||
         std::any_of(
             record.link.foreign_host_ifnames.begin(),
             record.link.foreign_host_ifnames.end(),
             [&](const std::string& name) { return leads_somewhere(host.net.FindLink(name)); });
}

std::vector<state::Record> LiveAttachmentsExcept(state::Host& host, const AttachmentId& except) {
  std::vector<state::Record> living;
  for (const AttachmentId& id : host.records.List("")) {
    std::optional<state::Record> record;
    if (id != except && (record = host.records.Find(id)) && IsAlive(host, *record)) {
      living.push_back(*std::move(record));
    }
  }
  return living;
}

}  // namespace nomad_bridge::link
