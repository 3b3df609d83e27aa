#include "base/text.h"
#include "plugin/attachment/leases.h"
#include "plugin/attachment/remove.h"
#include "plugin/cni/error_list.h"
#include "plugin/commands/commands.h"
#include "plugin/link/container.h"
#include "plugin/state/host.h"
#include "plugin/takeover/reference.h"

namespace nomad_bridge::commands {
namespace {

// What the reference firewall and portmap may have made behind our own bridge.
cni::Parts PartsOfOthers(const state::Record& record) {
  cni::Parts parts = {cni::Part::kForward, cni::Part::kPorts};
  std::erase_if(parts, [&](cni::Part part) { return record.Has(part); });
  return parts;
}

void RemoveRecorded(state::Host& host, const state::Record& record, cni::ErrorList& failures) {
  failures.Add(attachment::RemoveAll(host, record));
  if (record.Has(cni::Part::kLink) && !record.IsAny(state::Phase::kGone)) {
    failures.Try("the reference plugins' rules", [&] {
      takeover::RemoveReferenceRulesOf(
          host,
          {record.id, AddressesOnly(record.ipam.addresses), PartsOfOthers(record)},
          takeover::LegacyError::kLog);
    });
  }
}

}  // namespace

void DelInterface(const cni::Request& request, const cni::PluginType& type) {
  state::Host host = state::Host::Open();
  const FileLock own = host.records.Lock(request.id);
  const config::LenientConfig lenient = config::ParseLenient({*request.config, ""}, type.defaults);
  const std::optional<cni::DelegatedIpam> delegated =
      cni::FindDelegatedIpam(request, lenient.ipam_type);

  cni::ErrorList failures;
  std::optional<state::Record> record;
  failures.Try("what its record names", [&] { record = host.records.FindOwn(request.id); });
  // May be gone, and is not needed for what we made; the host's own is refused.
  std::optional<link::Container> container = link::FindContainer(request, host, record);
  if (record) {
    if (record->ipam.delegated) {
      record->ipam.delegated =
          cni::WithConfigOf(request, lenient.ipam_type, *std::move(record->ipam.delegated));
    }
    RemoveRecorded(host, *record, failures);
  }
  // Without a record, or with one of rules alone: the link is somebody else's, or its record is
  // lost.
  if (!record || !record->Has(cni::Part::kLink)) {
    const std::vector<Ip> addresses =
        record ? AddressesOnly(record->ipam.addresses) : std::vector<Ip>{};
    failures.Add(attachment::RemoveUnrecorded(
        host, {.id = request.id, .data_dir = lenient.data_dir, .addresses = addresses}));
    if (container) {
      failures.Try("the reference plugin's link", [&] {
        takeover::EnsureReferenceLinkGone(host, *container, request, lenient.bridge);
      });
    }
    failures.Try("the addresses", [&] {
      attachment::ReleaseAddresses(
          {.id = request.id, .netns_path = request.netns_path, .ipam = {.delegated = delegated}});
    });
  }
  failures.ThrowIfAny(Format("container '{}' still has parts of its network '{}'",
                             request.id.container_id,
                             request.id.network));
}

}  // namespace nomad_bridge::commands
