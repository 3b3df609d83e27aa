#include "plugin/attachment/publish.h"

#include <utility>

#include "base/log.h"
#include "plugin/attachment/remove.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/commit.h"
#include "plugin/rules/converge.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/localhost.h"
#include "plugin/rules/published_port_warnings.h"
#include "plugin/rules/stale_flows.h"

namespace nomad_bridge::attachment {
namespace {

// What is left of an attachment whose place `record` has taken. A part of it may be live.
void RemoveRemains(state::Host& host, const rules::StaleOwner& owner) {
  LogLine("took over from the stale container '{}'", owner.record.id.container_id);
  for (const std::string& failure : owner.is_alive
                                        ? Remove(host, owner.record, owner.record.OnlyLive())
                                        : RemoveAll(host, owner.record)) {
    LogLine("{}, ignoring", failure);
  }
}

// What is made of `record` is live afterwards.
void PutInForce(state::Host& host, const state::Record& record, firewall::PlanMode mode) {
  if (rules::ElementsOf(record.Finished().OnlyLive())
          .empty()) {  // without rules, where the kernel may not even have nf_tables
    if (record.IsAny(state::Phase::kMaking)) {
      host.records.Write(record.Finished());
    }
    return;
  }
  const rules::Committed committed = rules::Commit(host, record, mode);
  // After the commit, which has replaced or removed their elements with ours: if it had failed,
  // what a stale attachment has would be gone for nothing.
  for (const rules::StaleOwner& owner : committed.stale_owners) {
    RemoveRemains(host, owner);
  }
  // Last, and without the rules' lock: other programs' tools may take seconds.
  Mismatches implied(Mode::kRepair);
  rules::CheckOtherFirewalls(host, record, committed.checkpoint, implied);
}

}  // namespace

void Publish(state::Host& host, const state::Record& record, firewall::PlanMode mode) {
  Mismatches implied(Mode::kRepair);
  PutInForce(host, record, mode);
  // route_localnet only now: localhost_guard, which makes it safe, is in force.
  rules::CheckLocalhost(host, record.Finished(), implied);
  // Not before: a packet in between would begin the same flow anew, untranslated.
  rules::ForgetStaleFlows(host, record, {cni::Part::kPorts});
  rules::WarnOfPorts(host, record);
}

void CheckRules(state::Host& host, const state::Record& record, Mismatches& mismatches) {
  if (rules::ElementsOf(record).empty()) {
    return;  // the kernel may not even have nf_tables
  }
  // A quiet CHECK takes no lock: many of them at once do not wait for each other, nor for an ADD.
  std::optional<state::Checkpoint> checkpoint = rules::FindCurrentCheckpoint(host);
  if (!checkpoint) {
    const FileLock one_at_a_time = host.records.LockRules();
    rules::Converged converged = rules::Converge(host, {.added = &record}, mismatches);
    checkpoint = std::move(converged.checkpoint);
    if (converged.is_whole) {  // its own elements were among those compared
      return;
    }
  }
  std::vector<Mismatch> lost = rules::CompareElements(host, record);
  if (!lost.empty() && mismatches.is_repairing()) {
    PutInForce(host, record, firewall::PlanMode::kLookUp);
    rules::ForgetUntranslatedFlows(host, {record});
  }
  mismatches.AddAll(std::move(lost));
  rules::CheckOtherFirewalls(host, record, *checkpoint, mismatches);
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
    const std::optional<FileLock> lock = host.records.TryLock(id);
    if (!lock) {
      // A command that works on the sibling may have left its ports to us just before.
      rules::UpdateCheckpoint(host, [](state::Checkpoint& now) { now.Expire(); });
    }
    const std::optional<state::Record> sibling = lock ? host.records.Find(id) : std::nullopt;
    if (sibling && sibling->IsLive(cni::Part::kPorts) && link::IsAlive(host, *sibling)) {
      PutInForce(host, sibling->OnlyLive(), firewall::PlanMode::kLookUp);
    }
  }
}

}  // namespace nomad_bridge::attachment
