#include "base/text.h"
#include "plugin/attachment/leases.h"
#include "plugin/attachment/remove.h"
#include "plugin/commands/commands.h"
#include "plugin/commands/session.h"
#include "plugin/takeover/reference.h"

namespace nomad_bridge::commands {
namespace {

// Returns the parts that the reference firewall and portmap may have made for an interface on our
// own bridge.
cni::Parts PartsOfOthers(const state::Record& record) {
  cni::Parts parts = {cni::Part::kForward, cni::Part::kPorts};
  std::erase_if(parts, [&](cni::Part part) { return record.Has(part); });
  return parts;
}

void RemoveRecorded(state::Host& host, const state::Record& record, cni::ErrorList& failures) {
  failures.Add(attachment::RemoveAll(host, record));
  if (record.Has(cni::Part::kLink) && !record.IsAny(state::Phase::kDelDone)) {
    failures.Try("the reference plugins' rules", [&] {
      takeover::RemoveReferenceRulesOf(
          host, {record.id, AddressesOnly(record.ipam.addresses), PartsOfOthers(record)});
    });
  }
}

}  // namespace

void DelInterface(const cni::Request& request, const cni::PluginType& type) {
  const config::LenientConfig lenient = config::ParseLenient({*request.config, ""}, type.defaults);
  const std::optional<cni::DelegatedIpam> delegated =
      cni::FindDelegatedIpam(request, lenient.ipam_type);
  Removal del = BeginRemoval(request);
  state::Host& host = del.host;
  std::optional<state::Record>& record = del.record;
  if (record) {
    if (record->ipam.delegated) {
      record->ipam.delegated =
          cni::WithConfigOf(request, lenient.ipam_type, *std::move(record->ipam.delegated));
    }
    RemoveRecorded(host, *record, del.failures);
  }
  // Without a record, or with a record of rules alone: the link belongs to another plugin, or its
  // record was lost.
  if (!record || !record->Has(cni::Part::kLink)) {
    const std::vector<Ip> addresses =
        record ? AddressesOnly(record->ipam.addresses) : std::vector<Ip>{};
    del.failures.Add(attachment::RemoveUnrecorded(
        host, {.id = request.id, .data_dir = lenient.data_dir, .addresses = addresses}));
    if (del.container) {
      del.failures.Try("the reference plugin's link", [&] {
        takeover::EnsureReferenceLinkGone(host, *del.container, request, lenient.bridge);
      });
    }
    del.failures.Try("the addresses", [&] {
      attachment::ReleaseAddresses(
          {.id = request.id, .netns_path = request.netns_path, .ipam = {.delegated = delegated}});
    });
  }
  del.failures.ThrowIfAny(Format("container '{}' still has parts of its network '{}'",
                                 request.id.container_id,
                                 request.id.network));
}

}  // namespace nomad_bridge::commands
