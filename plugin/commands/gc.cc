#include <algorithm>
#include <set>

#include "base/text.h"
#include "ipam/store.h"
#include "plugin/attachment/reclaim.h"
#include "plugin/attachment/remove.h"
#include "plugin/cni/delegate.h"
#include "plugin/cni/error_list.h"
#include "plugin/cni/valid_attachments.h"
#include "plugin/commands/commands.h"
#include "plugin/config/config.h"
#include "plugin/rules/apply.h"
#include "plugin/state/host.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::commands {
namespace {

void RemoveRecorded(state::Host& host, const AttachmentId& id, cni::ErrorList& failures) {
  const RangeLock theirs = host.records.Lock(id);
  if (const std::optional<state::Record> record = host.records.Find(id)) {
    failures.Add(attachment::Remove(host, *record));
  } else {
    host.records.EnsureVoidGone(id);
  }
}

// Who holds leases of the network, whoever wrote them, and is not among `valid`.
std::set<AttachmentId> FindInvalidHolders(const std::string& network,
                                          const std::string& data_dir,
                                          const std::set<AttachmentId>& valid) {
  std::set<AttachmentId> holders;
  if (const std::optional<ipam::Store> store = ipam::Store::OpenIfExists(data_dir, network)) {
    for (const ipam::Lease& lease : store->Leases()) {
      const bool is_valid = std::any_of(valid.begin(), valid.end(), [&](const AttachmentId& id) {
        return lease.owner.Matches({id.container_id, id.ifname});
      });
      if (!is_valid) {
        holders.insert({network, lease.owner.container_id, lease.owner.ifname});
      }
    }
  }
  return holders;
}

void RemoveUnrecorded(state::Host& host,
                      const AttachmentId& id,
                      const std::string& data_dir,
                      cni::ErrorList& failures) {
  const RangeLock theirs = host.records.Lock(id);
  if (!host.records.Find(id)) {
    failures.Add(attachment::RemoveUnrecorded(host, id, data_dir));
  }
}

// Our ports of the bridge that neither a valid attachment nor any record explains: their records
// were lost. Records are read last, here and below: an ADD writes its record before anything else.
void RemoveStrayLinks(state::Host& host,
                      const cni::Request& request,
                      const std::string& bridge_name,
                      const std::set<AttachmentId>& valid) {
  const std::optional<rtnl::Link> bridge = host.net.FindLink(bridge_name);
  if (!bridge) {
    return;
  }
  const std::vector<rtnl::Socket::Port> ports = host.net.Ports(bridge->index);
  std::set<std::string> explained;
  for (const AttachmentId& id : host.records.List("")) {
    explained.insert(state::HostVethName(id));
  }
  for (const AttachmentId& id : valid) {
    explained.insert(state::HostVethName(id));
  }
  for (const rtnl::Socket::Port& port : ports) {
    const std::optional<rtnl::Link> link =
        explained.contains(port.name) ? std::nullopt : host.net.FindLink(port.index);
    if (link && link->alias.starts_with(Cat("nomad-bridge net=", request.id.network, " id="))) {
      host.net.EnsureLinkGone(port.name);
    }
  }
}

// Elements whose owner has neither a record nor a link.
void RemoveStrayElements(state::Host& host) {
  std::vector<nft::Element> strays;
  std::vector<nft::Element> present = firewall::OwnedElements(host.nft);
  std::set<std::string> owners;
  for (const AttachmentId& id : host.records.List("")) {
    owners.insert(state::HostVethName(id));
  }
  for (nft::Element& element : present) {
    const std::string owner(element.owner());
    if (!owners.contains(owner) && !host.net.FindLink(owner)) {
      strays.push_back(std::move(element));
    }
  }
  rules::RemoveElements(host, strays);
}

}  // namespace

// An attachment goes whole, whichever of its names is asked: nobody else is left to ask for it.
void Gc(const cni::Request& request, const cni::PluginType& type) {
  const std::optional<std::set<AttachmentId>> valid = cni::FindValidAttachments(request);
  const config::LenientConfig lenient = config::ParseLenient(*request.config, type.defaults);
  state::Host host = state::Host::Open();
  if (!valid) {
    attachment::ReclaimStale(host, request.id.network, lenient.data_dir);
    return;
  }

  cni::ErrorList failures;
  if (const std::optional<cni::DelegatedIpam> delegated_ipam =
          type.Provides(cni::Part::kAddress) ? cni::FindDelegatedIpam(request, lenient.ipam_type)
                                             : std::nullopt) {
    failures.Try("addresses", [&] {
      cni::InvokeIpam(*delegated_ipam, cni::Verb::kGc, request.id, request.netns_path);
    });
  }
  for (const AttachmentId& id : host.records.List(request.id.network)) {
    if (!valid->contains(id)) {
      failures.Try(Cat("container ", Quoted(id.container_id)),
                   [&] { RemoveRecorded(host, id, failures); });
    }
  }
  if (type.Provides(cni::Part::kAddress)) {
    for (const AttachmentId& id :
         FindInvalidHolders(request.id.network, lenient.data_dir, *valid)) {
      failures.Try(Cat("container ", Quoted(id.container_id)),
                   [&] { RemoveUnrecorded(host, id, lenient.data_dir, failures); });
    }
  }
  if (type.Provides(cni::Part::kLink)) {
    failures.Try("stray links", [&] { RemoveStrayLinks(host, request, lenient.bridge, *valid); });
  }
  if (type.ProvidesRules()) {
    failures.Try("stray rules", [&] { RemoveStrayElements(host); });
  }
  failures.ThrowIfAny(Cat("network ",
                          Quoted(request.id.network),
                          " still has parts of attachments that are not valid"));
}

}  // namespace nomad_bridge::commands
