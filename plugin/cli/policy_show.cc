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

Json RulesOf(state::Host& host,
             const std::vector<policy::Chain>& chains,
             const std::string& nomad_namespace) {
  const std::map<std::string, nft::Counter> counters = ReadCounters(host);
  const std::map<std::string, std::string> sets = host.policy.Program().SetTexts({nomad_namespace});
  Json all = Json::array();
  for (const policy::Chain& chain : chains) {
    for (const policy::Step& step : chain.steps) {
      const auto counter = counters.find(step.counter);
      all.push_back(
          {{"way", chain.name.starts_with("in-") ? "in" : "out"},
           {"rule", step.comment},
           {"is", nomad_bridge::NameOf(kOutcomes, step.outcome)},
           {"ports", step.ports ? Json(Text(*step.ports)) : Json()},
           {"peer", OrNull(PeerText(step, sets))},
           {"packets", counter != counters.end() ? Json(counter->second.packets) : Json()}});
    }
  }
  return all;
}

// Returns "tcp/8080 from namespace=prod job=lb".
Cell ShowWhat(const Json& rule) {
  const Json& ports = rule.at("ports");
  const Json& peer = rule.at("peer");
  return Cat(
      ports.is_null() ? "everything" : PlainText(ports),
      peer.is_null() ? "" : Cat(rule.at("way") == "in" ? " from " : " to ", PlainText(peer)));
}

constexpr std::array kStepColumns = {Column{"WAY", "/way"},
                                     Column{"RULE", "/rule", ShowPlain, Cuts::kFirst},
                                     Column{"IS", "/is"},
                                     Column{"WHAT", "", ShowWhat, Cuts::kFirst},
                                     Column{"COUNT", "/packets"}};

// Returns an attachment, with the policies and rules that judge its connections.
Json Examine(state::Host& host, const Attachment& attachment) {
  const policy::Program& program = host.policy.Program();
  const cni::Workload workload = attachment.record->Workload();
  Json json = {{"allocation", attachment.Allocation()},
               {"containerId", attachment.id.container_id},
               {"network", attachment.id.network},
               {"namespace", workload.nomad_namespace},
               {"job", workload.job},
               {"group", workload.group},
               {"labels", cni::Describe(attachment.record->labels)}};
  json.update(ReachJson(program, workload));
  json["rules"] = RulesOf(host, program.ChainsOf(workload), workload.nomad_namespace);
  return json;
}

std::string ShowExamined(const Json& json) {
  const auto policies = [&](const char* key) {
    return json.at(key) == "-" ? "everything: no policy restricts this" : PlainText(json.at(key));
  };
  const Json& rules = json.at("rules");
  return Cat(Format("Allocation  {}  {}\nReached by  {}\nReaches by  {}\n",
                    ShortId(json.at("allocation")),
                    json.at("labels").get<std::string>(),
                    policies("reachedBy"),
                    policies("reachesBy")),
             rules.empty() ? "" : TableOf(rules, kStepColumns));
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
  Json all = Json::array();
  for (const Attachment* const attachment : found) {
    if (attachment->record) {
      all.push_back(Examine(host, *attachment));
    }
  }
  if (found.empty()) {
    return kNo;
  }
  if (arguments.Has("json")) {
    PrintDocument({{"attachments", all}});
  } else {
    Print(Joined(all, "", ShowExamined));
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
