// firewall, portmap: rules for an interface that an earlier plugin has made. The earlier plugin is
// often nomad-bridge itself under another name.
#include <algorithm>
#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "base/undo.h"
#include "plugin/attachment/publish.h"
#include "plugin/attachment/remove.h"
#include "plugin/attachment/unrecorded.h"
#include "plugin/cni/error_list.h"
#include "plugin/commands/commands.h"
#include "plugin/commands/described_record.h"
#include "plugin/commands/session.h"
#include "plugin/state/children.h"
#include "plugin/state/events.h"
#include "plugin/takeover/reference.h"

namespace nomad_bridge::commands {
namespace {

// Removes the rules of an earlier ADD. If the earlier ADD was in another namespace, which is gone
// by now, removes the whole attachment. Returns the record of what stays.
std::optional<state::Record> RemoveEarlierRules(Session& session) {
  state::Host& host = session.host;
  std::optional<state::Record> earlier = host.records.FindOwn(session.request.id);
  if (!earlier) {
    return std::nullopt;
  }
  const cni::Parts parts =
      earlier->netns == session.container.id ? session.type.parts : earlier->AllParts();
  if (earlier->HasAny(parts)) {
    cni::ErrorList(attachment::Remove(host, *earlier, parts))
        .ThrowIfAny("cannot remove what an earlier ADD left");
  }
  earlier = earlier->Without(parts);
  return earlier->parts.empty() ? std::nullopt : earlier;  // its record is removed, too
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
  const auto print = [&] { cni::PrintPrevResult(request, out); };
  if (!record.HasAny(type.parts)) {
    return Answer(
        host, std::move(session.own), record, [] {}, print);
  }
  RequireJudgedTraffic(session, record);
  const auto remove_rules = [&] {
    attachment::UndoParts(host, record, type.parts);
    if (earlier) {
      host.records.Write(*earlier);  // as it was: without the settings of these parts
    }
  };
  Undo undo;
  undo.Then("remove the rules", remove_rules);
  host.records.Write(record);
  attachment::Publish(host, record);
  undo.Keep();
  Answer(host, std::move(session.own), record.Finished(), remove_rules, print);
}

// Behind a link of ours, this changes nothing of ours: the DEL of `bridge`, which comes next in the
// list, removes everything in one commit. Until then the rules go on checking what the container
// sends.
void DelRules(const cni::Request& request, const cni::PluginType& type) {
  Removal del = BeginRemoval(request);
  const state::Record record =
      del.record ? *del.record
                 : attachment::RecordFromKernel(del.host, request.id, "", del.failures);
  if (!record.Has(cni::Part::kLink)) {
    del.failures.Add(attachment::Remove(del.host, record, type.parts));
    state::LeaveRemovedToChild(del.host);
  }
  if (!del.record || !del.record->HasAny(type.parts)) {
    del.failures.Try("the reference plugins' rules",
                     [&] { RemoveReferenceRules(del.host, request, type.parts, del.record); });
  }
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
  Findings lost(session.mode());
  const state::RepairLog log(lost);
  std::optional<state::Record> found = session.host.records.Find(request.id);
  if (!found || !found->HasAny(type.parts)) {
    if (std::optional<state::Record> rebuilt = RebuildRules(session, found, lost)) {
      found = std::move(rebuilt);
    }
  }
  if (!found || !found->OnlyLive().HasAny(type.parts)) {
    std::vector<std::string> findings =
        takeover::DiffReference(session.host, request, type, config);
    if (found && !findings.empty()) {
      findings.push_back(Cat("it has no rules of ", type.name));
    }
    return ThrowIfChanged(request.id, findings);
  }
  const state::Record record = RequireRecord(session, std::move(found));
  // Leaves out the link and the leases: other processes check them.
  std::vector<std::string> findings = lost.TextsLeft();
  Append(findings, FindingsLeft(session, record.Without({cni::Part::kLink, cni::Part::kAddress})));
  ThrowIfChanged(request.id, findings);
}

}  // namespace nomad_bridge::commands
