#include "plugin/cli/policy_counts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"
#include "firewall/table.h"
#include "plugin/cli/policy_reach.h"

namespace nomad_bridge::cli {
namespace {

using What = policy::CounterOf::What;

// What judges one attachment, as it is in force.
struct Judges {
  Reach reach;
  std::map<std::string, RuleCounts> refusals;  // the rules of these policies that refuse
};

std::optional<Judges> FindJudges(state::Host& host, const Attachment& attachment) {
  const policy::Program& program = host.policy.Program();
  if (program.empty() || !attachment.record || !attachment.record->Has(cni::Part::kForward)) {
    return std::nullopt;
  }
  const cni::Workload workload = cni::WorkloadOf(attachment.labels);
  Judges judges = {.reach = ReachOf(program, workload)};
  std::set<std::string> about;
  for (const policy::Direction direction : {policy::Direction::kTo, policy::Direction::kFrom}) {
    for (const policy::Policy& each : program.PoliciesAbout(direction, workload)) {
      about.insert(each.name);
    }
  }
  for (auto& [name, rule] : CountsByRule(host)) {
    const bool refuses = rule.Of(What::kRefused) || rule.Of(What::kWouldBeRefused);
    if (about.contains(rule.policy) && refuses) {
      judges.refusals.emplace(name, std::move(rule));
    }
  }
  return judges;
}

}  // namespace

std::map<std::string, nft::Counter> ReadCounters(state::Host& host) {
  std::map<std::string, nft::Counter> counters;
  for (const nft::Counter& counter : host.nft.Counters(firewall::TableId())) {
    counters[counter.name] = counter;
  }
  return counters;
}

std::string RuleCounts::Since() const {
  constexpr std::string_view kWord = "since ";
  std::string since;
  for (const std::optional<nft::Counter>& counter : counters) {
    since = std::max(since, counter ? counter->comment : "");
  }
  return since.starts_with(kWord) ? since.substr(kWord.size()) : since;
}

std::map<std::string, RuleCounts> CountsByRule(state::Host& host) {
  const std::map<std::string, nft::Counter> counters = ReadCounters(host);
  std::map<std::string, RuleCounts> rules;
  for (const auto& [name, counted] : host.policy.Program().Counters()) {
    RuleCounts& rule = rules[counted.rule];
    rule.policy = counted.policy;
    rule.mode = counted.is_audited ? "audit" : "enforce";
    const auto found = counters.find(name);
    rule.counters.at(static_cast<std::size_t>(counted.what)) =
        found != counters.end() ? found->second
                                : nft::Counter{.name = name, .comment = "not in the kernel"};
  }
  return rules;
}

Json RuleJson(const std::pair<const std::string, RuleCounts>& named) {
  const auto& [name, rule] = named;
  const auto count = [](const std::optional<nft::Counter>& found) {
    return found ? Json(found->packets) : Json();
  };
  return {{"rule", name},
          {"policy", rule.policy},
          {"mode", rule.mode},
          {"allowed", count(rule.Of(What::kAllowed))},
          {"refused", count(rule.Of(What::kRefused))},
          {"wouldBeRefused", count(rule.Of(What::kWouldBeRefused))},
          {"since", rule.Since()}};
}

std::vector<std::string> ShowPolicies(state::Host& host, const Attachment& attachment) {
  const std::optional<Judges> judges = FindJudges(host, attachment);
  if (!judges || (judges->reach.in == "-" && judges->reach.out == "-")) {
    return {};
  }
  std::vector<std::string> lines = {
      Format("reached by {}; reaches by {}", judges->reach.in, judges->reach.out)};
  for (const auto& [name, rule] : judges->refusals) {
    const std::optional<nft::Counter>& refused = rule.Of(What::kRefused);
    const std::optional<nft::Counter>& audited = rule.Of(What::kWouldBeRefused);
    const std::uint64_t count = refused ? refused->packets : audited->packets;
    if (count != 0) {
      lines.push_back(Format("{}: {} {} since {}, of all allocations that it is about",
                             name,
                             Counted(count, "connection"),
                             refused ? "refused" : "would be refused",
                             rule.Since()));
    }
  }
  return lines;
}

Json PoliciesJson(state::Host& host, const Attachment& attachment) {
  const std::optional<Judges> judges = FindJudges(host, attachment);
  if (!judges) {
    return {};
  }
  return {{"reachedBy", judges->reach.in},
          {"reachesBy", judges->reach.out},
          {"refusals", ArrayOf(judges->refusals, RuleJson)}};
}

}  // namespace nomad_bridge::cli
