// firewall, portmap: rules for an interface that an earlier plugin has made. The earlier plugin is
// often nomad-bridge itself under another name.
#include <algorithm>
#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "base/undo.h"
#include "plugin/attachment/publish.h"
#include "plugin/attachment/remove.h"
#include "plugin/cni/error_list.h"
#include "plugin/commands/commands.h"
#include "plugin/commands/described_record.h"
#include "plugin/commands/session.h"
#include "plugin/link/host_veth.h"
#include "plugin/rules/commit.h"
#include "plugin/rules/elements.h"
#include "plugin/state/children.h"
#include "plugin/state/events.h"
#include "plugin/state/kernel_names.h"
#include "plugin/takeover/reference.h"

namespace nomad_bridge::commands {
namespace {

// Removes the rules of an earlier ADD. If the earlier ADD was in another namespace, which is gone
// by now, removes the whole attachment. Returns the record of what stays.
std::optional<state::Record> RemoveEarlierRules(Session& session) {
  state::Host& host = session.host;
  std::optional<state::Record> earlier = host.records.FindOwn(session.request.id);
  constexpr const char* kFailed = "cannot remove what an earlier ADD left";
  if (earlier && earlier->netns != session.container.id) {
    cni::ErrorList(attachment::RemoveAll(host, *earlier)).ThrowIfAny(kFailed);
    earlier.reset();
  } else if (earlier && earlier->HasAny(session.type.parts)) {
    const state::Record rest = earlier->Without(session.type.parts);
    cni::ErrorList(attachment::Remove(host, *earlier, rest)).ThrowIfAny(kFailed);
    earlier = rest.IsEmpty() ? std::nullopt : std::optional(rest);  // its record is removed, too
  }
  return earlier;
}

// Returns what stays after this DEL. The first DEL of an attachment may be for its own part only. A
// second DEL, for another type's part, shows that the runtime runs DEL for its whole list. It then
// removes all rules, although the DEL of the bridge, to which some belong, comes later. This saves
// a commit, and concurrent DELs wait for each other's commits.
state::Record RestAfterDel(const state::Record& record, const cni::Parts& parts) {
  state::Record rest = record;
  // We do not change a newer release's record, so it cannot show a second DEL that there was a
  // first one.
  const bool is_second = record.IsAny(state::Phase::kDelDone) && record.HasAny(parts);
  if (is_second || record.is_of_newer_release) {
    const state::Phase phase = is_second ? state::Phase::kLeaving : state::Phase::kDelDone;
    for (const cni::Part part : {cni::Part::kMasquerade, cni::Part::kForward, cni::Part::kPorts}) {
      rest = record.Has(part) ? rest.With({part}, phase) : rest;
    }
  }
  return rest.With(parts, state::Phase::kDelDone);
}

// Removes rules that have no record: the elements of `id` that belong to a part of `type`.
void RemoveUnrecordedRules(state::Host& host, const AttachmentId& id, const cni::PluginType& type) {
  std::vector<nft::Element> elements = rules::FindElementsOf(host.nft, state::HostVethName(id));
  std::erase_if(elements, [&](const nft::Element& element) {
    const cni::Parts parts = rules::PartsOf(element);
    return std::ranges::none_of(parts, [&](cni::Part part) { return type.Provides(part); });
  });
  rules::RemoveElements(host, elements);
}

// Sets the host end of our pair down if this DEL removes the forwarding rules, which apply the
// policies: until the DEL of the bridge the container would send without policies. Leaves the link
// up for another IPAM plugin, which may need it to release its address.
void EnsureHostEndDown(Removal& del, const state::Record& rest) {
  const state::Record& record = *del.record;
  if (record.IsLive(cni::Part::kForward) && !rest.IsLive(cni::Part::kForward) &&
      !record.ipam.delegated) {
    del.failures.Try("the link", [&] {
      link::EnsureHostEnd(del.host, record.id, link::Recorded::kYes, link::HostEnd::kDown);
    });
  }
}

// Removes the rules that the reference firewall and portmap may have made, even for an interface on
// our own bridge.
void RemoveReferenceRules(state::Host& host,
                          const cni::Request& request,
                          const cni::Parts& parts,
                          const std::optional<state::Record>& record) {
  std::vector<Cidr> addresses;
  if (record) {
    addresses = record->ipam.addresses;
  } else if (const std::optional<cni::Result> result = cni::FindPrevResult(request)) {
    addresses = link::AddressesIn(*result, request);
  }
  takeover::RemoveReferenceRulesOf(host, {request.id, AddressesOnly(addresses), parts});
}

}  // namespace

void AddRules(const cni::Request& request, const cni::PluginType& type, int out) {
  Session session = OpenSession(request, type);
  state::Host& host = session.host;
  const std::optional<state::Record> earlier = RemoveEarlierRules(session);
  const state::Record record = RecordFromPrevResult(session, earlier);
  const bool is_del_undone = earlier && earlier->IsDelBegun();
  const auto print = [&] { cni::PrintPrevResult(request, out); };
  if (!record.HasAny(type.parts) && !is_del_undone) {
    return Answer(host, std::move(session.own), record, record, print);
  }
  const state::Record rest = earlier.value_or(record.Without(type.parts));
  Undo undo;
  undo.Then("remove the rules", [&] { attachment::UndoPublish(host, record, rest); });
  host.records.Write(record);
  attachment::Publish(host, record);
  if (is_del_undone) {
    link::EnsureHostEnd(host, record.id, link::Recorded::kYes, link::HostEnd::kUp);
  }
  undo.Keep();
  Answer(host, std::move(session.own), record.Finished(), rest, print);
}

void DelRules(const cni::Request& request, const cni::PluginType& type) {
  Removal del = BeginRemoval(request);
  if (del.record) {
    const state::Record rest = RestAfterDel(*del.record, type.parts);
    EnsureHostEndDown(del, rest);
    del.failures.Add(attachment::Remove(del.host, *del.record, rest));
  } else {
    del.failures.Try("the rules", [&] { RemoveUnrecordedRules(del.host, request.id, type); });
  }
  if (!del.record || !del.record->HasAny(type.parts)) {
    del.failures.Try("the reference plugins' rules",
                     [&] { RemoveReferenceRules(del.host, request, type.parts, del.record); });
  }
  state::LeaveRemovedToChild(del.host);
  del.failures.ThrowIfAny(Format("container '{}' still has rules of {} in network '{}'",
                                 request.id.container_id,
                                 type.name,
                                 request.id.network));
}

void CheckRules(const cni::Request& request, const cni::PluginType& type) {
  Session session = OpenSession(request, type);
  const config::Config& config = session.config;
  if (type.Provides(cni::Part::kPorts) &&
      !IsAnyReachable(config.rules.ports, link::AddressesIn(*config.prev_result, request))) {
    return;  // ADD published nothing
  }
  Mismatches lost(session.mode());
  const state::RepairLog log(lost);
  std::optional<state::Record> found = session.host.records.Find(request.id);
  if (!found || !found->HasAny(type.parts)) {
    if (std::optional<state::Record> rebuilt = RebuildRules(session, found, lost)) {
      found = std::move(rebuilt);
    }
  }
  if (!found || !found->OnlyLive().HasAny(type.parts)) {
    std::vector<std::string> mismatches =
        takeover::DiffReference(session.host, request, type, config);
    if (found && !mismatches.empty()) {
      mismatches.push_back(Cat("it has no rules of ", type.name));
    }
    return ThrowIfChanged(request.id, mismatches);
  }
  const state::Record record = RequireRecord(session, std::move(found));
  // Leaves out the link and the leases: other processes check them.
  std::vector<std::string> mismatches = lost.TextsLeft();
  Append(mismatches,
         MismatchesLeft(session, record.Without({cni::Part::kLink, cni::Part::kAddress})));
  ThrowIfChanged(request.id, mismatches);
}

}  // namespace nomad_bridge::commands
