#include "plugin/attachment/publish.h"

#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "plugin/attachment/teardown.h"
#include "plugin/foreign/other_firewalls.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/apply.h"
#include "plugin/rules/elements.h"

namespace nomad_bridge::attachment {
namespace {

std::vector<firewall::DesiredState> DesiredOfOthers(state::Host& host, const AttachmentId& except) {
  std::vector<firewall::DesiredState> desired;
  for (const state::Record& other : link::LiveAttachmentsExcept(host, except)) {
    desired.push_back(
        {.forward_hook = other.rules.forward_hook, .elements = rules::ElementsOf(other)});
  }
  return desired;
}

void Apply(state::Host& host,
           const state::Record& record,
           firewall::PlanMode mode,
           const firewall::ListDesired& living) {
  firewall::Change change{
      .forward_hook = record.rules.forward_hook, .add = rules::ElementsOf(record), .mode = mode};
  if (change.add.empty()) {
    return;  // a bare link: the kernel may even have no nf_tables
  }
  rules::Committed committed = rules::Commit(host, record, std::move(change), living);
  for (const rules::StaleOwner& owner : committed.stale_owners) {
    LogLine("took over from the stale container ", Quoted(owner.record.id.container_id));
    for (const std::string& failure : TearDown(host, owner.record)) {
      LogLine(failure, ", ignoring");
    }
  }
  rules::UpdateForeignFirewalls(host, record, std::move(committed.checkpoint));
  for (const rules::StaleOwner& owner : committed.stale_owners) {
    TransferPortsToSibling(host, owner.record);
  }
}

}  // namespace

void ApplyRules(state::Host& host, const state::Record& record, firewall::PlanMode mode) {
  Apply(host, record, mode, [&] { return DesiredOfOthers(host, record.id); });
}

void RepairRules(state::Host& host, const state::Record& record) {
  const std::optional<state::Checkpoint> checkpoint = rules::FindCurrentCheckpoint(host);
  if (!checkpoint) {
    // This attachment is among the living: what it lost was lost, and is said so.
    Apply(host, record, firewall::PlanMode::kLookUp, [&] { return DesiredOfOthers(host, {}); });
    return;
  }
  if (rules::HasForwardHook(record)) {
    foreign::OpenLegacyTables(record);  // of which the generation says nothing
  }
  for (const std::string& note : checkpoint->notes) {
    LogLine(note);
  }
}

void TransferPortsToSibling(state::Host& host, const state::Record& record) {
  if (!record.Has(cni::Part::kPorts) || record.rules.ports.empty()) {
    return;
  }
  for (const AttachmentId& id : host.records.List("")) {
    if (!rules::IsSameContainer(id, record)) {
      continue;
    }
    // Whoever works on it publishes its ports, or takes them away.
    const std::optional<RangeLock> lock = host.records.TryLock(id);
    const std::optional<state::Record> other = lock ? host.records.Find(id) : std::nullopt;
    if (other && other->Has(cni::Part::kPorts) && link::IsAlive(host, *other)) {
      ApplyRules(host, *other, firewall::PlanMode::kLookUp);
    }
  }
}

}  // namespace nomad_bridge::attachment
