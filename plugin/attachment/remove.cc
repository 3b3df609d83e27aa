#include "plugin/attachment/remove.h"

#include <algorithm>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "ipam/store.h"
#include "plugin/attachment/leases.h"
#include "plugin/attachment/publish.h"
#include "plugin/attachment/teardown.h"
#include "plugin/cni/error_list.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/apply.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/port_side_effects.h"
#include "plugin/state/kernel_names.h"
#include "plugin/takeover/reference.h"

namespace nomad_bridge::attachment {

std::vector<std::string> Remove(state::Host& host, const state::Record& record) {
  return TearDown(host, record, [&] { TransferPortsToSibling(host, record); });
}

std::vector<std::string> RemoveRules(state::Host& host,
                                     const state::Record& record,
                                     const state::Record& rest) {
  return TearDownRules(host, record, rest, [&] { TransferPortsToSibling(host, record); });
}

void UndoPublish(state::Host& host, const state::Record& record, const state::Record& rest) {
  // Its phases on disk tell whether it was committed.
  cni::ErrorList(RemoveRules(host, host.records.Find(record.id).value_or(record), rest))
      .ThrowIfAny("some of them are still there");
}

void RemoveEarlier(state::Host& host,
                   const AttachmentId& id,
                   const std::optional<state::Record>& earlier,
                   const std::string& data_dir,
                   Undo& undo) {
  if (earlier) {
    undo.Then("remove what an earlier ADD left", [&host, earlier] {
      cni::ErrorList(Remove(host, *earlier)).ThrowIfAny("some of it is still there");
    });
    host.records.Write(earlier->All(state::Phase::kLeaving));
    rules::RemoveElements(host, rules::ElementsOf(*earlier));
    link::EnsureLinkGone(host, *earlier);
  } else if (link::FindHostVeth(host.net, id, link::Recorded::kNo) ||
             takeover::HasReferenceRules(host, id)) {
    cni::ErrorList(RemoveUnrecorded(host, id, data_dir))
        .ThrowIfAny("cannot remove what an earlier ADD without a record left");
  }
}

std::vector<std::string> RemoveUnrecorded(state::Host& host,
                                          const AttachmentId& id,
                                          const std::string& data_dir,
                                          const std::vector<Ip>& addresses) {
  cni::ErrorList failures;
  failures.Try("the rules", [&] {
    rules::RemoveElements(host, rules::FindElementsOf(host.nft, state::HostVethName(id)));
  });
  failures.Try("the reference plugins' rules", [&] {
    std::vector<Ip> all = FindLeasesOf(id, data_dir);
    all.insert(all.end(), addresses.begin(), addresses.end());
    takeover::RemoveReferenceRulesOf(
        host,
        id,
        all,
        {cni::Part::kMasquerade, cni::Part::kForward, cni::Part::kPorts},
        takeover::LegacyError::kThrow);
  });
  failures.Try("the link", [&] { link::EnsureUnrecordedLinkGone(host, id); });
  failures.Try("the leases", [&] { ReleaseAddressesOf(id, data_dir); });
  if (failures.empty()) {
    failures.Try("the record", [&] { host.records.EnsureVoidGone(id); });
  }
  return failures.list();
}

}  // namespace nomad_bridge::attachment
