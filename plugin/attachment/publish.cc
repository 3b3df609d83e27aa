#include "plugin/attachment/publish.h"

#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "plugin/attachment/teardown.h"
#include "plugin/foreign/other_firewalls.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/apply.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/port_side_effects.h"

namespace nomad_bridge::attachment {
namespace {

// `except`: the attachment whose missing elements are no repair.
void Apply(state::Host& host,
           const state::Record& record,
           firewall::PlanMode mode,
           const AttachmentId& except) {
  firewall::Change change{
      .forward_hook = record.rules.forward_hook, .add = rules::ElementsOf(record), .mode = mode};
  if (change.add.empty()) {
    return;  // without rules, where the kernel may not even have nf_tables
  }
  rules::Committed committed = rules::Commit(host, record, std::move(change), except);
  for (const rules::StaleOwner& owner : committed.stale_owners) {
    LogLine("took over from the stale container '{}'", owner.record.id.container_id);
    for (const std::string& failure : TearDown(host, owner.record)) {
      LogLine("{}, ignoring", failure);
    }
  }
  rules::UpdateForeignFirewalls(host, record, std::move(committed.checkpoint));
  for (const rules::StaleOwner& owner : committed.stale_owners) {
    TransferPortsToSibling(host, owner.record);
  }
}

}  // namespace

void Publish(state::Host& host, const state::Record& record, firewall::PlanMode mode) {
  Apply(host, record, mode, record.id);
  rules::EnsureLocalhostReaches(record);
  rules::ForgetStaleFlows(host, record);
}

void RepairRules(state::Host& host, const state::Record& record) {
  const std::optional<state::Checkpoint> checkpoint = rules::FindCurrentCheckpoint(host);
  if (!checkpoint) {
    Apply(host, record, firewall::PlanMode::kLookUp, {});
    return;
  }
  if (rules::HasForwardHook(record)) {
    foreign::OpenLegacyTables(record);  // the generation of nf_tables does not cover them
  }
  for (const std::string& note : checkpoint->notes) {
    LogLine("{}", note);
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
    // A command that works on the sibling publishes its ports, or removes them, itself.
    const std::optional<RangeLock> lock = host.records.TryLock(id);
    const std::optional<state::Record> sibling = lock ? host.records.Find(id) : std::nullopt;
    if (sibling && sibling->Has(cni::Part::kPorts) && link::IsAlive(host, *sibling)) {
      Apply(host, *sibling, firewall::PlanMode::kLookUp, id);
    }
  }
}

}  // namespace nomad_bridge::attachment
