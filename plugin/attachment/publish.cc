#include "plugin/attachment/publish.h"

#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "plugin/attachment/teardown.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/apply.h"
#include "plugin/rules/converge.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/port_side_effects.h"
#include "plugin/rules/port_warnings.h"

namespace nomad_bridge::attachment {
namespace {

void RemoveRemains(state::Host& host, const rules::StaleOwner& owner) {
  LogLine("took over from the stale container '{}'", owner.record.id.container_id);
  for (const std::string& failure : owner.is_alive
                                        ? TearDownRules(host, owner.record, owner.record.OnlyLive())
                                        : TearDown(host, owner.record)) {
    LogLine("{}, ignoring", failure);
  }
}

// What is made of `record` is live afterwards.
void Apply(state::Host& host, const state::Record& record, firewall::PlanMode mode) {
  firewall::Change change{.add = rules::ElementsOf(record.Finished().OnlyLive()), .mode = mode};
  if (change.add.empty()) {  // without rules, where the kernel may not even have nf_tables
    if (record.IsAny(state::Phase::kMaking)) {
      host.records.Write(record.Finished());
    }
    return;
  }
  rules::Committed committed = rules::Commit(host, record, std::move(change));
  for (const rules::StaleOwner& owner : committed.stale_owners) {
    RemoveRemains(host, owner);
  }
  rules::UpdateForeignFirewalls(host, record, std::move(committed.checkpoint));
  for (const rules::StaleOwner& owner : committed.stale_owners) {
    TransferPortsToSibling(host, owner.record);
  }
}

}  // namespace

void Publish(state::Host& host, const state::Record& record, firewall::PlanMode mode) {
  Apply(host, record, mode);
  rules::EnsureLocalhostReaches(host, record);
  rules::ForgetStaleFlows(host, record);
  rules::WarnOfPorts(host, record);
}

void RepairRules(state::Host& host, const state::Record& record) {
  const std::optional<state::Checkpoint> checkpoint = rules::FindCurrentCheckpoint(host);
  if (!checkpoint || rules::IsAnyMissing(host, record)) {
    Apply(host, record.OnlyLive(), firewall::PlanMode::kRepair);
    return;
  }
  rules::UpdateForeignFirewalls(host, record, *checkpoint);
}

void TransferPortsToSibling(state::Host& host, const state::Record& record) {
  if (!record.Has(cni::Part::kPorts) || record.rules.ports.empty()) {
    return;
  }
  const std::optional<state::Checkpoint> checkpoint = host.checkpoint.Find();
  if (checkpoint && !checkpoint->has_siblings) {
    return;
  }
  for (const AttachmentId& id : host.records.List("")) {
    if (!rules::IsSameContainer(id, record)) {
      continue;
    }
    const std::optional<RangeLock> lock = host.records.TryLock(id);
    if (!lock) {
      // A command that works on the sibling may have left its ports to us just before.
      rules::UpdateCheckpoint(host, [](state::Checkpoint& now) { now.Expire(); });
    }
    const std::optional<state::Record> sibling = lock ? host.records.Find(id) : std::nullopt;
    if (sibling && sibling->IsLive(cni::Part::kPorts) && link::IsAlive(host, *sibling)) {
      Apply(host, sibling->OnlyLive(), firewall::PlanMode::kLookUp);
    }
  }
}

}  // namespace nomad_bridge::attachment
