#include "plugin/cli/policy_view.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "firewall/table.h"
#include "plugin/policy/policy.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::cli {
namespace {

using What = policy::CounterOf::What;

std::string Names(const std::vector<policy::Policy>& policies) {
  return OrDash(Joined(policies, ", ", [](const policy::Policy& each) {
    return Cat(each.name, each.is_audited ? " (audit)" : "");
  }));
}

}  // namespace

std::string DirectoryOf(const Arguments& arguments) {
  const std::string* const typed =
      arguments.operands.empty() ? arguments.Find("dir") : &arguments.operands.front();
  if (typed != nullptr && !FindStatus(*typed)) {
    throw CannotTell(Format("there is no directory '{}'", *typed));
  }
  return typed != nullptr ? *typed : policy::kPolicyDirectory;
}

policy::Policies ReadRemarking(const std::string& directory) {
  std::vector<std::string> remarks;
  policy::Policies policies = policy::ReadPolicies(directory, remarks);
  for (const std::string& remark : remarks) {
    LogLine("{}", remark);
  }
  return policies;
}

void RemarkOnUnseen(const FindingList& unseen) {
  for (const Finding& finding : unseen) {
    LogLine("{}; {}", finding.text, finding.FixNow().Line());
  }
}

FilesNow CompareFiles(state::Host& host) {
  const std::string& applied = host.policy.Directory();
  const std::string directory = applied.empty() ? policy::kPolicyDirectory : applied;
  try {
    std::vector<std::string> remarks;
    const policy::Policies policies = policy::ReadPolicies(directory, remarks);
    if (policy::Program(policies).Revision() == host.policy.Program().Revision() &&
        policies.are_named == host.policy.AreApplied()) {
      return {.directory = directory, .differ = false};
    }
  } catch (const Error& error) {
    return {.directory = directory,
            .text = error.what(),
            .fix = Fix::Advice(Cat("correct them until this says ok: nomad-bridge policy check ",
                                   ShellWord(directory)))};
  }
  if (!FindStatus(directory)) {
    return {.directory = directory,
            .differ = true,
            .text = Format("policies are in force, and {} is gone", directory),
            .fix = Fix::Advice(Format("restore the directory, or apply {} instead (no policies, if "
                                      "that is missing, too): nomad-bridge policy apply",
                                      policy::kPolicyDirectory))};
  }
  return {.directory = directory,
          .differ = true,
          .text = host.policy.AreApplied()
                      ? Format("the files in {} differ from the policies in force", directory)
                      : Format("the policies in {} are not in force: none were applied since the "
                               "node booted, or they were lost",
                               directory),
          .fix = Cat("nomad-bridge policy apply ", ShellWord(directory))};
}

Json ReachJson(const policy::Program& program,
               const cni::Workload& workload,
               const policy::Judgement& now) {
  const policy::Judgement& by_labels = program.JudgementOf(workload);
  const auto names = [&](policy::Direction direction,
                         const std::optional<std::string> policy::Judgement::*chain) {
    if (!(now.*chain)) {
      return Names({});
    }
    return now.*chain == by_labels.*chain ? Names(program.PoliciesAbout(direction, workload))
                                          : "unknown";
  };
  return {{"reachedBy", names(policy::Direction::kTo, &policy::Judgement::in)},
          {"reachesBy", names(policy::Direction::kFrom, &policy::Judgement::out)}};
}

policy::InForce NowOf(const rules::InForce& in_force, const Attachment& attachment) {
  const std::string owner = state::HostVethName(attachment.id);
  return in_force.OfAny(attachment.record ? AddressesOnly(attachment.record->ipam.addresses)
                                          : in_force.AddressesOf(owner));
}

bool HasNamespace(const policy::End& end) {
  return end.workload && !end.workload->nomad_namespace.empty();
}

std::string Text(const policy::End& end) {
  if (HasNamespace(end)) {
    std::vector names = {end.workload->nomad_namespace, end.workload->job, end.workload->group};
    std::erase(names, "");
    return Joined(names, "/");
  }
  if (end.is_node) {
    return "node";
  }
  return end.address ? end.address->Text() : "outside";
}

Holders FindHolders(state::Host& host, const Inventory& inventory) {
  Holders holders{.of_node = host.net.AllAddresses()};
  const rules::InForce in_force(host);
  for (const Attachment& attachment : inventory.attachments) {
    if (!attachment.record) {
      for (const Ip& address : in_force.AddressesOf(state::HostVethName(attachment.id))) {
        holders.allocations.push_back({.end = {.workload = cni::WorkloadOf(attachment.labels),
                                               .address = address,
                                               .in_force = in_force.Of(address)}});
      }
      continue;
    }
    for (const Cidr& cidr : attachment.record->ipam.addresses) {
      holders.subnets.insert(Cidr{cidr.Network(), cidr.prefix_length});
      if (attachment.state != State::kDead) {
        holders.allocations.push_back({.end = {.workload = attachment.record->Workload(),
                                               .address = cidr.address,
                                               .in_force = in_force.Of(cidr.address)},
                                       .created = attachment.record->created});
      }
    }
  }
  return holders;
}

std::map<std::string, nft::Counter> ReadCounters(state::Host& host) {
  std::map<std::string, nft::Counter> counters;
  for (const nft::Counter& counter : host.nft.Counters(firewall::TableId())) {
    counters[counter.name] = counter;
  }
  return counters;
}

std::vector<RuleCount> CountByRule(state::Host& host) {
  constexpr std::string_view kWord = "since ";
  const std::map<std::string, nft::Counter> counters = ReadCounters(host);
  std::vector<RuleCount> counts;
  for (const auto& [name, counted] : host.policy.Program().Counters()) {
    const auto found = counters.find(name);
    const nft::Counter counter = found != counters.end() ? found->second : nft::Counter();
    const std::size_t begin = counter.comment.starts_with(kWord) ? kWord.size() : 0;
    counts.push_back({counted, counter.packets, counter.comment.substr(begin)});
  }
  std::ranges::sort(counts, {}, &RuleCount::rule);
  return counts;
}

Json RuleJson(const RuleCount& count) {
  const auto packets_if = [&](What what) {
    return count.what == what ? Json(count.packets) : Json();
  };
  return {{"rule", count.rule},
          {"policy", count.policy},
          {"text", count.text},
          {"mode", count.is_audited ? "audit" : "enforce"},
          {"allowed", packets_if(What::kAllowed)},
          {"refused", packets_if(What::kRefused)},
          {"wouldBeRefused", packets_if(What::kWouldBeRefused)},
          {"since", OrNull(count.since)}};
}

Json PoliciesJson(state::Host& host, const Attachment& attachment) {
  const policy::Program& program = host.policy.Program();
  const policy::InForce now = NowOf(rules::InForce(host), attachment);
  if (program.empty() || !now.is_here) {
    return {};
  }
  const cni::Workload workload = cni::WorkloadOf(attachment.labels);
  std::set<std::string> about;
  for (const policy::Direction direction : {policy::Direction::kTo, policy::Direction::kFrom}) {
    for (const policy::Policy& each : program.PoliciesAbout(direction, workload)) {
      about.insert(each.name);
    }
  }
  std::vector<RuleCount> refusals = CountByRule(host);
  std::erase_if(refusals, [&](const RuleCount& count) {
    return count.what == What::kAllowed || !about.contains(count.policy);
  });
  Json json = ReachJson(program, workload, now);
  json["refusals"] = ArrayOf(refusals, RuleJson);
  return json;
}

std::vector<std::string> ShowPolicies(const Json& policies) {
  if (policies.is_null() || (policies.at("reachedBy") == "-" && policies.at("reachesBy") == "-")) {
    return {};
  }
  std::vector<std::string> lines = {Format("reached by {}; reaches by {}",
                                           PlainText(policies.at("reachedBy")),
                                           PlainText(policies.at("reachesBy")))};
  for (const Json& rule : policies.at("refusals")) {
    const bool is_refused = !rule.at("refused").is_null();
    const std::size_t packets = rule.at(is_refused ? "refused" : "wouldBeRefused");
    if (packets != 0) {
      lines.push_back(Format("{}: {} {} since {}, for all allocations that the policy selects",
                             PlainText(rule.at("rule")),
                             Counted(packets, "connection"),
                             is_refused ? "refused" : "would be refused",
                             PlainText(rule.at("since"))));
    }
  }
  return lines;
}

}  // namespace nomad_bridge::cli
