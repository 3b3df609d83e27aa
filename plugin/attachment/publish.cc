#include "plugin/attachment/publish.h"

#include <utility>

#include "base/log.h"
#include "plugin/attachment/remove.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/bridge_netfilter.h"
#include "plugin/rules/commit.h"
#include "plugin/rules/converge.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/forward_hooks.h"
#include "plugin/rules/localhost.h"
#include "plugin/rules/published_port_warnings.h"
#include "plugin/rules/stale_conntrack.h"

namespace nomad_bridge::attachment {
namespace {

// Removes the stale parts of an attachment whose address or port another attachment has taken over.
void RemoveStaleParts(state::Host& host, const rules::StaleOwner& owner) {
  LogLine("took over from the stale container '{}'", owner.record.id.container_id);
  for (const std::string& failure : owner.is_alive
                                        ? Remove(host, owner.record, owner.record.OnlyLive())
                                        : RemoveAll(host, owner.record)) {
    LogLine("{}, ignoring", failure);
  }
}

// Commits all elements of `record`; parts in phase kMaking are live afterwards. Returns the
// checkpoint; nullopt if `record` has no rules.
std::optional<state::Checkpoint> CommitElements(state::Host& host, const state::Record& record) {
  // Without rules nothing is committed: the kernel may not even have nf_tables.
  if (rules::ElementsOf(record.Finished().OnlyLive()).empty()) {
    if (record.IsAny(state::Phase::kMaking)) {
      host.records.Write(record.Finished());
    }
    return std::nullopt;
  }
  rules::Committed committed = rules::Commit(host, record);
  // After the commit: if the commit fails, the stale attachment must keep what it has.
  for (const rules::StaleOwner& owner : committed.stale_owners) {
    RemoveStaleParts(host, owner);
  }
  return std::move(committed.checkpoint);
}

}  // namespace

void Publish(state::Host& host, const state::Record& record) {
  Mismatches repaired(Mode::kRepair);  // dropped: only CHECK and reconcile name what they repair
  const std::optional<state::Checkpoint> checkpoint = CommitElements(host, record);
  // After the commit: the chain localhost_guard, which makes route_localnet safe, is in force.
  rules::CheckLocalhost(host, record.Finished(), repaired);
  // After the commit: until then the next packet would begin the same flow again, untranslated.
  rules::DeleteStaleConntrack(host, record, {cni::Part::kPorts});
  // After everything that lets packets pass: the tools of other firewalls may take seconds.
  if (checkpoint) {
    rules::CheckOtherFirewalls(host, record, *checkpoint, repaired);
  }
  rules::WarnOfPorts(host, record);
  if (const std::optional<Mismatch> tagged = rules::FindTaggedTraffic(host, record)) {
    LogLine("{}", tagged->TextWithFix());
  }
}

void PublishPort(state::Host& host, const state::Record& record) {
  CommitElements(host, record);
  host.records.Write(record);
}

void CheckRules(state::Host& host, const state::Record& record, Mismatches& mismatches) {
  if (rules::ElementsOf(record).empty()) {
    return;  // the kernel may not even have nf_tables
  }
  // If no rule has changed, CHECK takes no lock. So many CHECKs at once wait neither for each other
  // nor for an ADD.
  std::optional<state::Checkpoint> checkpoint = rules::FindCurrentCheckpoint(host);
  rules::Depth compared = rules::Depth::kNothing;
  if (!checkpoint) {
    const FileLock one_at_a_time = host.records.LockRules();
    rules::Converged converged = rules::Converge(host, {.added = &record}, mismatches);
    checkpoint = std::move(converged.checkpoint);
    compared = converged.depth;
  }
  // After the tables, because the elements name their sets and chains. If Converge() compared
  // kEverything, it has compared single elements already.
  std::vector<Mismatch> lost = compared == rules::Depth::kEverything
                                   ? std::vector<Mismatch>()
                                   : rules::CompareElements(host, record);
  if (!lost.empty() && mismatches.is_repairing()) {
    checkpoint = CommitElements(host, record);
    rules::DeleteUntranslatedConntrack(host, {record});
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
  // Looks in all networks: a sibling is the same container in another network, or under another
  // interface name.
  for (const AttachmentId& id : host.records.List("")) {
    if (!rules::IsSameContainer(id, record)) {
      continue;
    }
    const std::optional<FileLock> lock = host.records.TryLock(id);
    if (!lock) {
      // Perhaps the command that holds the lock has just left the sibling's ports to `record`,
      // which gives them up now. So the next command compares everything, and publishes them.
      rules::UpdateCheckpoint(host, [](state::Checkpoint& now) { now.Expire(); });
    }
    const std::optional<state::Record> sibling = lock ? host.records.Find(id) : std::nullopt;
    if (sibling && sibling->IsLive(cni::Part::kPorts) && link::IsAlive(host, *sibling)) {
      CommitElements(host, sibling->OnlyLive());
    }
  }
}

}  // namespace nomad_bridge::attachment
