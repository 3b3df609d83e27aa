#include "base/text.h"
#include "plugin/attachment/acquire_addresses.h"
#include "plugin/attachment/leases.h"
#include "plugin/attachment/remove.h"
#include "plugin/cni/error_list.h"
#include "plugin/commands/commands.h"
#include "plugin/link/container.h"
#include "plugin/state/host.h"
#include "plugin/takeover/reference.h"

namespace nomad_bridge::commands {

namespace {

// Of an attachment whose link is ours, what others may have made: the reference's firewall and
// portmap, behind our bridge.
cni::Parts RulesOfStrangers(const state::Record& record) {
  cni::Parts parts;
  for (const cni::Part part : {cni::Part::kForward, cni::Part::kPorts}) {
    if (!record.Has(part)) {
      parts.insert(part);
    }
  }
  return parts;
}

}  // namespace

void DelInterface(const cni::Request& request, const cni::PluginType& type) {
  state::Host host = state::Host::Open();
  // Perhaps gone, and not needed for what we made; but the host's own is refused.
  std::optional<link::Container> container = link::FindContainer(request, host);
  const RangeLock mine = host.records.Lock(request.id);
  const config::LenientConfig lenient = config::ParseLenient(*request.config, type.defaults);
  const std::optional<cni::DelegatedIpam> delegated_ipam =
      cni::FindDelegatedIpam(request, lenient.ipam_type);

  cni::ErrorList failures;
  std::vector<Ip> addresses;
  bool is_ours = false;  // a record may also be of rules alone, for a link that a stranger has made
  if (std::optional<state::Record> record = host.records.Find(request.id)) {
    if (record->ipam.delegated && delegated_ipam) {
      record->ipam.delegated = delegated_ipam;  // it gets what the runtime says today
    }
    addresses = AddressesOnly(record->ipam.addresses);
    failures.Add(attachment::Remove(host, *record));
    is_ours = record->Has(cni::Part::kLink);
    if (is_ours && record->del_progress == state::DelProgress::kNone) {
      failures.Try("the reference plugins' rules", [&] {
        takeover::TryRemoveReferenceRules(host, request.id, addresses, RulesOfStrangers(*record));
      });
    }
  }
  if (!is_ours) {
    failures.Add(attachment::RemoveUnrecorded(host, request.id, lenient.data_dir, addresses));
    if (container) {
      failures.Try("the reference plugin's link", [&] {
        takeover::EnsureReferenceLinkGone(host, *container, request, lenient.bridge);
      });
    }
    failures.Try("the addresses", [&] {
      attachment::ReleaseAddresses({.id = request.id,
                                    .netns_path = request.netns_path,
                                    .ipam = {.delegated = delegated_ipam}});
    });
  }
  failures.ThrowIfAny(Cat("container ",
                          Quoted(request.id.container_id),
                          " still has parts of its network ",
                          Quoted(request.id.network)));
}

}  // namespace nomad_bridge::commands
