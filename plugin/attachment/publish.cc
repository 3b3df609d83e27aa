#include "plugin/attachment/publish.h"

#include <optional>
#include <string>

#include "base/error.h"
#include "base/finding.h"
#include "base/log.h"
#include "plugin/attachment/remove.h"
#include "plugin/foreign/other_firewalls.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/commit.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/localhost.h"
#include "plugin/rules/published_port_warnings.h"
#include "plugin/rules/stale_conntrack.h"

namespace nomad_bridge::attachment {
namespace {

// Commits all elements of `record`. If that finishes its ADD, parts in phase kMaking are live
// afterwards. Returns false if it has none.
bool CommitElements(state::Host& host,
                    const state::Record& record,
                    rules::Finishes finishes = rules::Finishes::kYes) {
  // Without rules nothing is committed: the kernel may not even have nf_tables.
  if (rules::ElementsOf(record.Finished().OnlyLive()).empty()) {
    if (finishes == rules::Finishes::kYes && record.IsAny(state::Phase::kMaking)) {
      host.records.Write(record.Finished());
    }
    return false;
  }
  // After the commit: if the commit fails, the stale attachment must keep what it has.
  for (const rules::StaleOwner& owner : rules::Commit(host, record, finishes)) {
    LogLine("took over from the stale container '{}'", owner.record.id.container_id);
    for (const std::string& failure : Remove(host, owner.record, owner.parts)) {
      LogLine("{}, ignoring", failure);
    }
  }
  return true;
}

}  // namespace

void Publish(state::Host& host, const state::Record& record) {
  Findings silent = Findings::Silently();
  const bool has_rules = CommitElements(host, record);
  // After the commit: the chain localhost_guard, which makes route_localnet safe, is in force.
  rules::CheckLocalhost(host, record.Finished(), silent);
  // After the commit: until then the next packet would begin the same flow again, untranslated.
  rules::DeleteStaleConntrack(host, record, {cni::Part::kPorts});
  // After everything that lets packets pass: the tools of other firewalls may take seconds.
  if (has_rules) {
    foreign::CheckOtherFirewalls(host, record, silent);
  }
  rules::WarnOfPorts(host, record);
  if (has_rules && !record.rules.ports.empty()) {
    for (const Finding& strict : foreign::FindStrictForwardPorts(host)) {
      LogLine("{}", strict.TextWithFix());
    }
  }
}

void PublishPort(state::Host& host, const state::Record& record) {
  CommitElements(host, record, rules::Finishes::kNo);
}

void PublishAgain(state::Host& host, const state::Record& record) {
  CommitElements(host, record);
  rules::DeleteUntranslatedConntrack(host, {record});
}

void PublishForSiblings(state::Host& host, const state::Record& record) {
  if (record.rules.ports.empty()) {
    return;
  }
  for (const AttachmentId& id : host.records.SiblingsOf(record.id)) {
    try {
      const std::optional<FileLock> lock = host.records.TryLock(id);
      const std::optional<state::Record> sibling = lock ? host.records.Find(id) : std::nullopt;
      if (sibling && sibling->IsLive(cni::Part::kPorts) && link::IsAlive(host, *sibling)) {
        CommitElements(host, sibling->OnlyLive());
      }
    } catch (const Error& error) {
      // Another container may have taken the port meanwhile. What is removed is gone all the same.
      LogLine("cannot publish the ports of container '{}' in network '{}', ignoring: {}",
              id.container_id,
              id.network,
              error.what());
    }
  }
}

}  // namespace nomad_bridge::attachment
