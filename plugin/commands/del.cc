#include "base/text.h"
#include "plugin/attachment/leases.h"
#include "plugin/attachment/remove.h"
#include "plugin/attachment/unrecorded.h"
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

// Returns what is left of an attachment without a record, or beside a record of rules alone: the
// link belongs to another plugin, or its record was lost.
state::Record FindUnrecorded(Removal& del,
                             const cni::Request& request,
                             const std::string& data_dir,
                             const std::optional<cni::DelegatedIpam>& delegated) {
  state::Record found = attachment::RecordFromKernel(del.host, request.id, data_dir, del.failures);
  found.netns_path = request.netns_path;
  found.ipam.delegated = delegated;
  if (delegated) {
    found.parts.emplace(cni::Part::kAddress, state::Phase::kLive);
  }
  return found;
}

}  // namespace

void DelInterface(const cni::Request& request, const cni::PluginType& type) {
  const config::LenientConfig lenient = config::ParseLenient({*request.config, ""}, type.defaults);
  const std::optional<cni::DelegatedIpam> delegated =
      cni::FindDelegatedIpam(request, lenient.ipam_type);
  Removal del = BeginRemoval(request);
  state::Host& host = del.host;
  if (del.record) {
    state::Record& record = *del.record;
    if (record.ipam.delegated) {
      record.ipam.delegated =
          cni::WithConfigOf(request, lenient.ipam_type, *std::move(record.ipam.delegated));
    }
    del.failures.Add(attachment::Remove(host, record, record.AllParts()));
    del.failures.Try("the reference plugins' rules", [&] {
      takeover::RemoveReferenceRulesOf(
          host, {record.id, AddressesOnly(record.ipam.addresses), PartsOfOthers(record)});
    });
  }
  const std::string data_dir = del.record && del.record->Has(cni::Part::kAddress)
                                   ? del.record->ipam.data_dir
                                   : lenient.data_dir;
  if (!del.record || !del.record->Has(cni::Part::kLink)) {
    const state::Record found = FindUnrecorded(del, request, lenient.data_dir, delegated);
    del.failures.Add(attachment::Remove(host, found, found.AllParts()));
    if (del.container) {
      del.failures.Try("the reference plugin's link", [&] {
        takeover::EnsureReferenceLinkGone(host, *del.container, request, lenient.bridge);
      });
    }
  }
  del.failures.Try("the directory of the leases", [&] {
    attachment::EnsureUnusedDirectoryGone(host, request.id.network, data_dir);
  });
  del.failures.ThrowIfAny(Format("container '{}' still has parts of its network '{}'",
                                 request.id.container_id,
                                 request.id.network));
}

}  // namespace nomad_bridge::commands
