#include "plugin/attachment/apply_policies.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/bridge_netfilter.h"
#include "plugin/rules/check_ruleset.h"
#include "plugin/rules/policy_tables.h"

namespace nomad_bridge::attachment {
namespace {

std::vector<state::Record> LiveRecords(state::Host& host) {
  std::vector<state::Record> live = link::LiveAttachments(host, {}).records();
  for (state::Record& record : live) {
    record = record.OnlyLive();
  }
  return live;
}

// Returns the policies in force. Damaged policies count as none and are replaced like any others.
policy::Program FindFormer(state::Host& host) {
  if (const std::optional<Error> unread = rules::FindPolicyReadError(host)) {
    LogLine("{}, ignoring", unread->what());
    return {};
  }
  return host.policy.Program();
}

// Checks each bridge once for each kind of attachment that the policies make.
void CheckBridges(state::Host& host, const std::vector<state::Record>& records) {
  std::set<std::string> done;
  Findings silent = Findings::Silently();
  for (const state::Record& record : records) {
    const std::string key = Cat(record.link.bridge, ' ', rules::KindNameOf(record.rules.policy));
    const std::optional<rtnl::Link> bridge =
        record.IsLive(cni::Part::kLink) && done.insert(key).second
            ? host.net.FindLink(record.link.bridge)
            : std::nullopt;
    if (bridge) {
      rules::RequireBridgeNetfilter(host, *bridge, record);
      rules::CheckBridgeNetfilter(host, *bridge, record, silent);
    }
  }
}

// Writes into each record which chains and sets the new policies have for it, so that its DEL finds
// its elements.
void NoteJudgements(state::Host& host, const policy::Program& program) {
  host.records.Update([&](state::Record& record) {
    const state::Record former = std::exchange(record, rules::WithPolicies(record, program));
    return record.rules.policy != former.rules.policy;
  });
}

void PutInForce(state::Host& host,
                const policy::Program& program,
                const std::string& directory,
                const std::vector<state::Record>& judged) {
  // First restores the rules of ours that others have removed, and deletes the flows that began
  // without these rules. The switch itself then has nothing to restore, and deletes no flows.
  if (!rules::FindPolicyReadError(host)) {
    rules::RepairRuleset(host, nullptr);
  }
  const std::optional<std::string> former = state::PolicyFile::FindText();
  // The file before the kernel: if this process is killed in between, the next command puts the new
  // policies in force.
  host.policy.Write(program, directory);
  try {
    // Bridges before rules: policies must see traffic between bridge ports from the first packet
    // on.
    CheckBridges(host, judged);
    rules::SwitchPolicies(host, judged);
  } catch (...) {
    host.policy.Restore(former);
    throw;
  }
}

}  // namespace

ApplyReport ApplyPolicies(state::Host& host,
                          const policy::Program& program,
                          const std::string& directory,
                          Mode mode) {
  // One lock for all of it: no ADD may commit an attachment with the former policies meanwhile.
  const FileLock one_at_a_time = host.records.LockRules();
  host.policy.Refresh();
  ApplyReport report = {.former = FindFormer(host), .changed = {}, .unseen = {}};
  std::vector<state::Record> judged;
  for (const state::Record& record : LiveRecords(host)) {
    const policy::Judgement before = rules::JudgementOf(record, report.former);
    const policy::Judgement& after =
        judged.emplace_back(rules::WithPolicies(record, program)).rules.policy;
    if (before.in != after.in || before.out != after.out) {
      report.changed.push_back(judged.back());
    }
  }
  std::ranges::stable_sort(report.changed, {}, &state::Record::Workload);
  if (mode == Mode::kRepair) {
    PutInForce(host, program, directory, judged);
    // After the kernel: a DEL in between finds its elements by a dump, because its record names the
    // former policies (rules/commit.cc).
    NoteJudgements(host, program);
    report.unseen = rules::FindUnseenTraffic(host, judged);
  }
  return report;
}

FindingList FindUnseenTraffic(state::Host& host) {
  return host.policy.Program().empty() ? FindingList()
                                       : rules::FindUnseenTraffic(host, LiveRecords(host));
}

}  // namespace nomad_bridge::attachment
