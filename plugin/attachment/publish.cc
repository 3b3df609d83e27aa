#include "plugin/attachment/publish.h"

#include <algorithm>
#include <utility>

#include "base/list.h"
#include "base/log.h"
#include "plugin/attachment/remove.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/commit.h"
#include "plugin/rules/converge.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/forward_hooks.h"
#include "plugin/rules/localhost.h"
#include "plugin/rules/published_port_warnings.h"
#include "plugin/rules/stale_flows.h"
#include "plugin/state/events.h"

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

// Whether another attachment has needed already what was found for `record`, and is shared.
bool IsNeededBy(const state::Record& other, const Mismatch& found, const state::Record& record) {
  if (found.area == Mismatch::Area::kLocalhost) {
    return rules::NeedsLocalhost(other, found.owner);
  }
  return other.rules.forward_hook == record.rules.forward_hook &&
         (found.area == Mismatch::Area::kStaticRules || other.link.gateway_ifname == found.owner);
}

// What was made for `record` beside its elements. Of a new attachment only what others have needed
// is a repair. All records are read where that may be.
void LogRepairs(state::Host& host, const state::Record& record, const Mismatches& found) {
  link::LiveAttachments others(host, record.id);
  Mismatches repaired(Mode::kRepair);
  const state::RepairLog log(repaired);
  std::vector<Mismatch> lost = found.repaired();
  std::erase_if(lost, [&](const Mismatch& mismatch) {
    const bool is_its_own = Contains(record.link.foreign_host_ifnames, mismatch.owner);
    return record.IsAny(state::Phase::kMaking) &&
           (is_its_own || std::ranges::none_of(others.records(), [&](const state::Record& other) {
              return IsNeededBy(other, mismatch, record);
            }));
  });
  repaired.AddAll(std::move(lost));
}

// What is made of `record` is live afterwards. Returns the checkpoint; nullopt if it has no rules.
std::optional<state::Checkpoint> PutInForce(state::Host& host,
                                            const state::Record& record,
                                            firewall::PlanMode mode) {
  // Without rules, where the kernel may not even have nf_tables.
  if (rules::ElementsOf(record.Finished().OnlyLive()).empty()) {
    if (record.IsAny(state::Phase::kMaking)) {
      host.records.Write(record.Finished());
    }
    return std::nullopt;
  }
  rules::Committed committed = rules::Commit(host, record, mode);
  // After the commit, which has replaced or removed their elements with ours: if it had failed,
  // what a stale attachment has would be gone for nothing.
  for (const rules::StaleOwner& owner : committed.stale_owners) {
    RemoveRemains(host, owner);
  }
  return std::move(committed.checkpoint);
}

}  // namespace

void Publish(state::Host& host, const state::Record& record, firewall::PlanMode mode) {
  Mismatches found(Mode::kRepair);
  const std::optional<state::Checkpoint> checkpoint = PutInForce(host, record, mode);
  // route_localnet only now: localhost_guard, which makes it safe, is in force.
  rules::CheckLocalhost(host, record.Finished(), found);
  // Not before: a packet in between would begin the same flow anew, untranslated.
  rules::ForgetStaleFlows(host, record, {cni::Part::kPorts});
  // Last of what lets packets pass: other programs' tools may take seconds.
  if (checkpoint) {
    rules::CheckOtherFirewalls(host, record, *checkpoint, found);
  }
  rules::WarnOfPorts(host, record);
  LogRepairs(host, record, found);
}

void CheckRules(state::Host& host, const state::Record& record, Mismatches& mismatches) {
  if (rules::ElementsOf(record).empty()) {
    return;  // the kernel may not even have nf_tables
  }
  // A quiet CHECK takes no lock: many of them at once do not wait for each other, nor for an ADD.
  std::optional<state::Checkpoint> checkpoint = rules::FindCurrentCheckpoint(host);
  bool is_compared = false;
  if (!checkpoint) {
    const FileLock one_at_a_time = host.records.LockRules();
    rules::Converged converged = rules::Converge(host, {.added = &record}, mismatches);
    checkpoint = std::move(converged.checkpoint);
    is_compared = converged.is_whole;  // its own elements, too
  }
  std::vector<Mismatch> lost =
      is_compared ? std::vector<Mismatch>() : rules::CompareElements(host, record);
  if (!lost.empty() && mismatches.is_repairing()) {
    checkpoint = PutInForce(host, record, firewall::PlanMode::kLookUp);
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
      static_cast<void>(PutInForce(host, sibling->OnlyLive(), firewall::PlanMode::kLookUp));
    }
  }
}

}  // namespace nomad_bridge::attachment
