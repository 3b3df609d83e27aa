#include "plugin/commands/session.h"

#include <array>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/attachment/reconcile.h"
#include "plugin/attachment/remove.h"
#include "plugin/attachment/unrecorded.h"
#include "plugin/cni/error_list.h"
#include "plugin/config/node_config.h"
#include "plugin/link/host_veth.h"
#include "plugin/rules/bridge_netfilter.h"
#include "plugin/rules/policy_tables.h"
#include "plugin/takeover/reference.h"

namespace nomad_bridge::commands {
namespace {

// In these areas only the operator can correct what we cannot repair.
constexpr std::array kOperatorsAreas = {Finding::Area::kPolicy, Finding::Area::kBridge};

bool HasReferenceRules(state::Host& host, const AttachmentId& id) {
  takeover::RuleDumps dumps(host.nft, id.container_id);
  return takeover::HasReferenceRules(id, dumps);
}

// Adds to `rules` what the node's own config says. A mistake there fails only an ADD that must be
// refused if policies are required.
void ReadNodesOwn(const cni::PluginType& type, bool needs_policies, config::RulesConfig& rules) {
  if (!needs_policies && !type.Provides(cni::Part::kMasquerade)) {
    return;
  }
  try {
    config::NodeConfig node = config::ReadNodeConfig();
    for (const std::string& problem : node.problems) {
      LogLine("{}", problem);
    }
    rules.policy_required = rules.policy_required || node.policy_required;
    Append(rules.non_masquerade_cidrs, std::move(node.non_masquerade_cidrs));
  } catch (const Error& error) {
    if (needs_policies) {
      throw;
    }
    LogLine("{}", error.what());
  }
}

}  // namespace

Session OpenSession(const cni::Request& request, const cni::PluginType& type) {
  const bool is_add = request.verb == cni::Verb::kAdd;
  config::Config config = config::ParseConfig(request, type);
  if (!config.prev_result && !(is_add && type.Provides(cni::Part::kLink))) {
    throw Error(Code::kInvalidConfig,
                "prevResult is missing",
                "it must hold the result of ADD, or of the plugin before this one in the list");
  }
  for (const auto& [key, nearest] : config.unknown_keys) {
    if (is_add && !nearest.empty()) {  // other unknown keys are meant for other programs
      LogLine("the config of network '{}' has the unknown key '{}'; did you mean '{}'?",
              request.id.network,
              key,
              nearest);
    }
  }
  state::Host host = state::Host::Open();
  link::Container container = link::OpenContainer(request, host.netns);
  ReadNodesOwn(type,
               is_add && (type.ProvidesRules() || type.Provides(cni::Part::kLink)) &&
                   !host.policy.AreApplied(),
               config.rules);
  if (is_add) {
    config = rules::WithoutUnsupportedDefaults(std::move(config), host);
    rules::RequirePolicies(config.rules, type, host);
    if (config.labels_error && !host.policy.Program().empty()) {
      throw Error(*config.labels_error);  // nobody would know which policies select it
    }
  }
  FileLock own = host.records.Lock(request.id);
  return {.request = request,
          .type = type,
          .config = std::move(config),
          .host = std::move(host),
          .container = std::move(container),
          .own = std::move(own)};
}

state::Record RequireRecord(const Session& session, std::optional<state::Record> record) {
  const AttachmentId& id = session.request.id;
  if (!record || !record->IsAny(state::Phase::kLive)) {
    throw Error(Code::kChanged,
                Format("container '{}' has no attachment '{}' to network '{}'",
                       id.container_id,
                       id.ifname,
                       id.network),
                record ? "its ADD or DEL was killed, or is still at work"
                       : "nomad-bridge has no record of it: it was never added, removed, or added "
                         "before the last boot");
  }
  if (record->netns != session.container.id) {
    throw Error(
        Code::kChanged,
        Format("container '{}' is in another network namespace than at ADD", id.container_id),
        Format("it was added in '{}', inode {}, and now is in {}",
               record->netns_path,
               record->netns.inode,
               session.container.id.inode));
  }
  return *std::move(record);
}

void RequireJudgedTraffic(Session& session, const state::Record& record) {
  if (session.host.policy.Program().empty()) {
    return;
  }
  for (const Finding& finding : rules::FindUnseenTraffic(session.host, {record.Finished()})) {
    if (finding.severity == Finding::Severity::kFault &&
        (session.config.rules.policy_required || config::ReadNodeConfig().policy_required)) {
      throw Error(Code::kConflict,
                  finding.text,
                  finding.fix.command.empty() ? finding.fix.advice : finding.fix.Line());
    }
    LogLine("{}", finding.TextWithFix());
  }
}

Removal BeginRemoval(const cni::Request& request) {
  state::Host host = state::Host::Open();
  FileLock own = host.records.Lock(request.id);
  Removal del = {.host = std::move(host), .own = std::move(own)};
  del.failures.Try("what its record names",
                   [&] { del.record = del.host.records.FindOwn(request.id); });
  del.container = link::FindContainer(request, del.host.netns, del.record);
  return del;
}

void RemoveEarlier(state::Host& host,
                   const AttachmentId& id,
                   const std::optional<state::Record>& earlier,
                   const std::string& data_dir,
                   Undo& undo) {
  const char* const failed = "cannot remove what an earlier ADD left";
  if (earlier) {
    undo.Then("remove what an earlier ADD left", [&host, earlier, failed] {
      cni::ErrorList(attachment::Remove(host, *earlier, earlier->AllParts())).ThrowIfAny(failed);
    });
    // Its addresses are given out again. With the phase, nobody takes them for those of a live
    // attachment. A newer release's record is never rewritten (record_store.h).
    const state::Record leaving = earlier->With(earlier->AllParts(), state::Phase::kLeaving);
    cni::Parts parts = earlier->AllParts();
    if (!earlier->ipam.delegated) {
      parts.erase(cni::Part::kAddress);  // it gets the same addresses again
    }
    cni::ErrorList(attachment::Remove(host, leaving, parts)).ThrowIfAny(failed);
  } else if (link::FindHostVeth(host.net, id, link::Recorded::kNo) || HasReferenceRules(host, id)) {
    cni::ErrorList failures;
    const state::Record found = attachment::RecordFromKernel(host, id, data_dir, failures);
    failures.Add(attachment::Remove(host, found, found.AllParts()));
    failures.ThrowIfAny(failed);
  }
}

void Answer(state::Host& host,
            FileLock own,
            const state::Record& made,
            const std::function<void()>& undo,
            const std::function<void()>& print) {
  { const FileLock released = std::move(own); }
  Undo steps;
  steps.Then("remove what was made", [&] {
    const FileLock again = host.records.Lock(made.id);
    if (host.records.IsAsWritten(made)) {
      undo();
    }
  });
  print();
  steps.Keep();
}

std::vector<std::string> FindingsLeft(Session& session, const state::Record& record) {
  Findings found(session.mode());
  try {
    found = attachment::ReconcileOne(session.host, record, session.mode()).findings;
  } catch (const Error& error) {
    if (!rules::FindPolicyReadError(session.host)) {
      throw;
    }
    // No rule can be repaired without the policies, and a failed CHECK would end the allocation.
    LogLine("{}, ignoring", error.what());
    return {};
  }
  std::vector<std::string> texts;
  for (const Finding& finding : found.left()) {
    if (Contains(kOperatorsAreas, finding.area) && !finding.is_repairable) {
      // CHECK does not fail: to end the allocation would not help.
      LogLine("ignoring: {}", finding.TextWithFix());
    } else {
      texts.push_back(finding.text);
    }
  }
  return texts;
}

void ThrowIfChanged(const AttachmentId& id, const std::vector<std::string>& findings) {
  if (!findings.empty()) {
    throw Error(Code::kChanged,
                Format("the network of container '{}' is not as ADD left it", id.container_id),
                cni::ErrorList::Join(findings));
  }
}

}  // namespace nomad_bridge::commands
