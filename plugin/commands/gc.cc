#include <algorithm>
#include <set>

#include "base/text.h"
#include "ipam/store.h"
#include "plugin/attachment/reclaim.h"
#include "plugin/attachment/remove.h"
#include "plugin/cni/delegate.h"
#include "plugin/cni/error_list.h"
#include "plugin/cni/request.h"
#include "plugin/commands/commands.h"
#include "plugin/config/config.h"
#include "plugin/link/host_veth.h"
#include "plugin/rules/converge.h"
#include "plugin/state/host.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::commands {
namespace {

void RemoveRecorded(state::Host& host, const AttachmentId& id, cni::ErrorList& failures) {
  const RangeLock lock = host.records.Lock(id);
  if (const std::optional<state::Record> record = host.records.FindOwn(id)) {
    failures.Add(attachment::Remove(host, *record));
  } else {
    host.records.EnsureVoidGone(id);
  }
}

// Those with leases in the network, written by whatever plugin, that are not among `valid`.
std::set<AttachmentId> FindInvalidOwners(const std::string& network,
                                         const std::string& data_dir,
                                         const std::set<AttachmentId>& valid) {
  std::set<AttachmentId> owners;
  if (const std::optional<ipam::Store> store = ipam::Store::OpenIfExists(data_dir, network)) {
    for (const ipam::Lease& lease : store->Leases()) {
      const bool is_valid = std::ranges::any_of(
          valid, [&](const AttachmentId& id) { return lease.owner.Matches(ipam::OwnerOf(id)); });
      if (!is_valid) {
        owners.insert({network, lease.owner.container_id, lease.owner.ifname});
      }
    }
  }
  return owners;
}

void RemoveUnrecorded(state::Host& host,
                      const AttachmentId& id,
                      const std::string& data_dir,
                      cni::ErrorList& failures) {
  const RangeLock lock = host.records.Lock(id);
  if (!host.records.Find(id)) {
    failures.Add(attachment::RemoveUnrecorded(host, id, data_dir));
  }
}

// The owner's key of each attachment that has a record, or is valid. To be read after what it is
// compared with: an ADD writes its record before anything else.
std::set<std::string> KnownOwners(const state::Host& host, const std::set<AttachmentId>& valid) {
  std::set<std::string> owners;
  for (const AttachmentId& id : valid) {
    owners.insert(state::HostVethName(id));
  }
  for (const AttachmentId& id : host.records.List("")) {
    owners.insert(state::HostVethName(id));
  }
  return owners;
}

// Our ports of the bridge that belong neither to a valid attachment nor to one with a record: their
// records were lost.
void RemoveStrayLinks(state::Host& host,
                      const cni::Request& request,
                      const std::string& bridge_name,
                      const std::set<AttachmentId>& valid) {
  const std::optional<rtnl::Link> bridge = host.net.FindLink(bridge_name);
  if (!bridge) {
    return;
  }
  const std::vector<rtnl::Socket::Port> ports = host.net.Ports(bridge->index);
  const std::set<std::string> owners = KnownOwners(host, valid);
  for (const rtnl::Socket::Port& port : ports) {
    const std::optional<rtnl::Link> link =
        owners.contains(port.name) ? std::nullopt : host.net.FindLink(port.index);
    if (link && link->alias.starts_with(Cat("nomad-bridge net=", request.id.network, " id="))) {
      link::EnsureStrayLinkGone(host, *link);
    }
  }
}

}  // namespace

// An attachment is removed whole, under whichever of our names GC is run.
void Gc(const cni::Request& request, const cni::PluginType& type) {
  const std::optional<std::set<AttachmentId>> valid = cni::FindValidAttachments(request);
  const config::LenientConfig lenient = config::ParseLenient({*request.config, ""}, type.defaults);
  state::Host host = state::Host::Open();
  if (!valid) {
    attachment::ReclaimStale(host, request.id.network, lenient.data_dir);
    return;
  }

  cni::ErrorList failures;
  if (type.Provides(cni::Part::kAddress)) {
    failures.Try("addresses",
                 [&] { cni::InvokeIpamOf(request, lenient.ipam_type, cni::Verb::kGc); });
  }
  for (const AttachmentId& id : host.records.List(request.id.network)) {
    if (!valid->contains(id)) {
      failures.Try(Format("container '{}'", id.container_id),
                   [&] { RemoveRecorded(host, id, failures); });
    }
  }
  if (type.Provides(cni::Part::kAddress)) {
    for (const AttachmentId& id : FindInvalidOwners(request.id.network, lenient.data_dir, *valid)) {
      failures.Try(Format("container '{}'", id.container_id),
                   [&] { RemoveUnrecorded(host, id, lenient.data_dir, failures); });
    }
  }
  if (type.Provides(cni::Part::kLink)) {
    failures.Try("stray links", [&] { RemoveStrayLinks(host, request, lenient.bridge, *valid); });
  }
  if (type.ProvidesRules()) {
    failures.Try("stray rules", [&] { rules::ConvergeAll(host, *valid); });
  }
  failures.ThrowIfAny(
      Format("network '{}' still has parts of attachments that are not valid", request.id.network));
}

}  // namespace nomad_bridge::commands
