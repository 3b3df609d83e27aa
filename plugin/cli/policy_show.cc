// policy show: shows the rules by which the kernel judges the connections of an allocation, or who
// reaches whom.
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/list.h"
#include "base/text.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/command.h"
#include "plugin/cli/named_attachments.h"
#include "plugin/cli/policy_graph.h"
#include "plugin/cli/policy_view.h"
#include "plugin/policy/policy.h"
#include "plugin/rules/policy_tables.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::array kShowFlags = {
    Flag{"graph", nullptr, "who reaches whom on this node, as Mermaid"},
    Flag{"jobs", nullptr, "with -graph: jobs for its nodes, instead of namespaces"},
    kJsonFlag};

// Returns "namespace=prod job=lb"; empty for anyone.
std::string PeerText(const policy::Step& step, const std::map<std::string, std::string>& sets) {
  using PeerIs = policy::Step::PeerIs;
  switch (step.peer) {
    case PeerIs::kMember: {
      const auto set = sets.find(step.peers);
      return set != sets.end() ? set->second : step.peers;
    }
    case PeerIs::kAddress:
      return Cat("the addresses ", step.peers);
    case PeerIs::kOutside:
      return "outside";
    case PeerIs::kNode:
      return "the node";
    case PeerIs::kAnyone:
      break;
  }
  return {};
}

using Outcome = policy::Step::Outcome;

constexpr Names<Outcome, 6> kOutcomes = {{{Outcome::kContinue, "counted"},
                                          {Outcome::kWouldRefuse, "would be refused"},
                                          {Outcome::kReturn, "allowed"},
                                          {Outcome::kGoto, "allowed"},
                                          {Outcome::kReject, "refused"},
                                          {Outcome::kDrop, "dropped"}}};

// A step of a chain, for people.
struct Rule {
  bool is_in;
  std::string name;  // "api#0"
  std::string_view outcome;
  std::string ports;  // "tcp/8080"; empty: all
  std::string peer;
  std::optional<std::uint64_t> packets;  // nullopt: the step has no counter
};

std::vector<Rule> RulesOf(state::Host& host,
                          const std::vector<policy::Chain>& chains,
                          const std::string& nomad_namespace) {
  const std::map<std::string, nft::Counter> counters = ReadCounters(host);
  const std::map<std::string, std::string> sets = host.policy.Program().SetTexts({nomad_namespace});
  std::vector<Rule> all;
  for (const policy::Chain& chain : chains) {
    for (const policy::Step& step : chain.steps) {
      const auto counter = counters.find(step.counter);
      all.push_back({.is_in = chain.name.starts_with("in-"),
                     .name = step.comment,
                     .outcome = nomad_bridge::NameOf(kOutcomes, step.outcome),
                     .ports = step.ports ? Text(*step.ports) : "",
                     .peer = PeerText(step, sets),
                     .packets = counter != counters.end() ? std::optional(counter->second.packets)
                                                          : std::nullopt});
    }
  }
  return all;
}

// Returns a line per rule: "in  api#0  allowed  tcp/8080 from namespace=prod job=lb  12".
std::string ShowTable(const std::vector<Rule>& all) {
  Table table({"WAY", "RULE", "IS", "WHAT", "COUNT"}, {"RULE", "WHAT"});
  for (const Rule& rule : all) {
    const std::string_view way = rule.is_in ? " from " : " to ";
    table.Add({rule.is_in ? "in" : "out",
               rule.name,
               std::string(rule.outcome),
               Cat(rule.ports.empty() ? "everything" : rule.ports,
                   rule.peer.empty() ? "" : Cat(way, rule.peer)),
               rule.packets ? Cat(*rule.packets) : "-"});
  }
  return table.Text();
}

Json ShownRuleJson(const Rule& rule) {
  return {{"way", rule.is_in ? "in" : "out"},
          {"rule", rule.name},
          {"is", rule.outcome},
          {"ports", OrNull(rule.ports)},
          {"peer", OrNull(rule.peer)},
          {"packets", rule.packets ? Json(*rule.packets) : Json()}};
}

// An attachment, with the policies and rules that judge its connections.
struct Shown {
  const Attachment& attachment;
  cni::Workload workload;
  Reach reach;
  std::vector<Rule> rules;
};

Shown Examine(state::Host& host, const Attachment& attachment) {
  const policy::Program& program = host.policy.Program();
  const cni::Workload workload = attachment.record->Workload();
  return {.attachment = attachment,
          .workload = workload,
          .reach = ReachOf(program, workload),
          .rules = RulesOf(host, program.ChainsOf(workload), workload.nomad_namespace)};
}

std::string ShowRulesOf(const Shown& shown) {
  const auto [in, out] = shown.reach;
  constexpr std::string_view kNone = "everything: no policy restricts this";
  return Cat(Format("Allocation  {}  {}\nReached by  {}\nReaches by  {}\n",
                    ShortId(shown.attachment.Allocation()),
                    cni::Describe(shown.attachment.record->labels),
                    in == "-" ? kNone : in,
                    out == "-" ? kNone : out),
             shown.rules.empty() ? "" : ShowTable(shown.rules));
}

Json ShownJson(const Shown& shown) {
  const Attachment& attachment = shown.attachment;
  return {{"allocation", attachment.Allocation()},
          {"containerId", attachment.id.container_id},
          {"network", attachment.id.network},
          {"namespace", shown.workload.nomad_namespace},
          {"job", shown.workload.job},
          {"group", shown.workload.group},
          {"reachedBy", shown.reach.in},
          {"reachesBy", shown.reach.out},
          {"rules", ArrayOf(shown.rules, ShownRuleJson)}};
}

void CheckArguments(const Arguments& arguments) {
  const bool is_graph = arguments.Has("graph");
  if (is_graph && arguments.Has("json")) {
    throw UsageError("-graph is Mermaid, not JSON");
  }
  if (is_graph == (arguments.operands.size() == 1) || (arguments.Has("jobs") && !is_graph)) {
    throw UsageError("policy show needs an allocation, or -graph, perhaps with -jobs");
  }
}

int RunShow(const Arguments& arguments) {
  RequireRoot("policy show");
  CheckArguments(arguments);
  state::Host host = state::Host::Open();
  if (arguments.Has("graph")) {
    rules::RequireReadablePolicies(host);
    Print(PolicyGraph(host, arguments.Has("jobs") ? GraphOf::kJobs : GraphOf::kNamespaces));
    return kYes;
  }
  const Inventory inventory = TakeInventory(host);
  const Attachments found = FindOne(inventory, arguments.operands.front());
  std::vector<Shown> all;
  for (const Attachment* const attachment : found) {
    if (attachment->record) {
      all.push_back(Examine(host, *attachment));
    }
  }
  if (found.empty()) {
    return kNo;
  }
  if (arguments.Has("json")) {
    PrintDocument({{"attachments", ArrayOf(all, ShownJson)}});
  } else {
    Print(Joined(all, "", ShowRulesOf));
  }
  return kYes;
}

}  // namespace

const Command kPolicyShow = {
    .name = "policy show",
    .operands = {"[ALLOC|PORT]", 0, 1},
    .summary = "what the policies in force do to an allocation",
    .text =
        R"(The policies that are about an allocation, which ALLOC and PORT name as for
inspect, and the rules by which the kernel judges a new connection, in their
order, with what each has counted. -graph prints who reaches whom for a code
review or a wiki: namespaces, with the ports that are allowed on the edges, and
dotted what was refused within the last hour.
)",
    .flags = kShowFlags,
    .run = RunShow};

}  // namespace nomad_bridge::cli
