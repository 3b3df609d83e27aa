// policy show: shows the rules by which the kernel judges the connections of an allocation, or who
// reaches whom, as Mermaid, which code reviews and wikis render.
//
// Nodes   Nomad's namespaces, or its jobs; `outside`; and `node`
// Edges   labelled with the ports that some allocation of the first node reaches on some allocation
//         of the second, or with `all`. Dotted edges are connections that policies have refused,
//         or audit mode would have refused, within the last hour, if that is still so.
// Source  https://mermaid.js.org/syntax/flowchart.html
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/list.h"
#include "base/text.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/command.h"
#include "plugin/cli/named_attachments.h"
#include "plugin/cli/policy_flows.h"
#include "plugin/cli/policy_view.h"
#include "plugin/policy/judge.h"
#include "plugin/policy/policy.h"
#include "plugin/rules/policy_tables.h"

namespace nomad_bridge::cli {
namespace {

using policy::Ports;

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
          {{"way", chain.direction == policy::Direction::kTo ? "in" : "out"},
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
Json Examine(state::Host& host, const rules::InForce& in_force, const Attachment& attachment) {
  const policy::Program& program = host.policy.Program();
  const cni::Workload workload = cni::WorkloadOf(attachment.labels);
  const policy::InForce now = NowOf(in_force, attachment);
  // Leaves out the chains of a direction in which the kernel judges by none, or by another.
  std::vector<policy::Chain> chains = program.ChainsOf(workload);
  const policy::Judgement& by_labels = program.JudgementOf(workload);
  std::erase_if(chains, [&](const policy::Chain& chain) {
    return chain.direction == policy::Direction::kTo ? now.in != by_labels.in
                                                     : now.out != by_labels.out;
  });
  Json json = {{"allocation", attachment.Allocation()},
               {"containerId", attachment.id.container_id},
               {"network", attachment.id.network},
               {"namespace", workload.nomad_namespace},
               {"job", workload.job},
               {"group", workload.group},
               {"labels", cni::DescribeShort(attachment.labels)},
               {"inForce", now.is_here}};
  json.update(ReachJson(program, workload, now));
  json["rules"] = RulesOf(host, chains, workload.nomad_namespace);
  return json;
}

std::string ShowExamined(const Json& json) {
  const auto policies = [&](const char* key) {
    return json.at(key) == "-" ? "everything: no policy restricts this" : PlainText(json.at(key));
  };
  const Json& rules = json.at("rules");
  if (!json.at("inForce")) {
    return Format("Allocation  {}  {}\nno policy is in force for it (policy status)\n",
                  ShortId(json.at("allocation")),
                  json.at("labels").get<std::string>());
  }
  return Cat(Format("Allocation  {}  {}\nReached by  {}\nReaches by  {}\n",
                    ShortId(json.at("allocation")),
                    json.at("labels").get<std::string>(),
                    policies("reachedBy"),
                    policies("reachesBy")),
             rules.empty() ? "" : TableOf(rules, kStepColumns));
}

enum class GraphOf { kNamespaces, kJobs };

constexpr const char* kOutside = "outside";
constexpr const char* kNode = "node";

std::string NameOf(const policy::End& end, GraphOf of) {
  if (end.is_node || !end.workload) {
    return end.is_node ? kNode : kOutside;
  }
  const cni::Workload& workload = *end.workload;
  if (workload.nomad_namespace.empty()) {
    return "without labels";
  }
  return of == GraphOf::kNamespaces
             ? workload.nomad_namespace
             : Cat(workload.nomad_namespace, '/', cni::ParentJob(workload.job));
}

// Maps a node of the graph to one end for each namespace, job and group of its allocations.
using Ends = std::map<std::string, std::vector<policy::End>>;

Ends FindEnds(const Holders& holders, GraphOf of) {
  Ends ends;
  std::set<std::pair<cni::Workload, std::optional<policy::InForce>>> known;
  for (const Holder& holder : holders.allocations) {
    if (known.emplace(*holder.end.workload, holder.end.in_force).second) {
      ends[NameOf(holder.end, of)].push_back(holder.end);
    }
  }
  ends[kOutside] = {policy::End{}};
  for (const Ip& address : holders.of_node) {
    ends[kNode].push_back({.address = address, .is_node = true});
  }
  return ends;
}

class Graph {
 public:
  Graph(const policy::Program& program, Ends ends, GraphOf of)
      : program_(program), ends_(std::move(ends)), of_(of), ports_(PortsNamed()) {
    for (const auto& each : ends_) {
      ids_[each.first] = Cat('n', ids_.size());
    }
  }

  void AddReach() {
    for (const auto& [from, sources] : ends_) {
      for (const auto& [to, targets] : ends_) {
        if (IsAsked(from, to)) {
          if (const std::string ports = ReachedPorts(sources, targets); !ports.empty()) {
            lines_.push_back(Format("  {} -->|{}| {}", Id(from), ports, Id(to)));
          }
        }
      }
    }
  }

  void AddRefused(const Flows& flows) {
    std::map<std::tuple<std::string, std::string, bool>, std::uint64_t> tries;
    for (const Flow& flow : flows.flows) {
      if (!flow.IsAllowedNow()) {
        tries[{NameOf(flow.from, of_), NameOf(flow.to, of_), flow.now.is_allowed}] += flow.tries;
      }
    }
    for (const auto& [way, count] : tries) {
      const auto& [from, to, is_allowed] = way;
      lines_.push_back(Format("  {} -.->|{} {}| {}",
                              Id(from),
                              is_allowed ? "would be refused" : "refused",
                              count,
                              Id(to)));
    }
  }

  [[nodiscard]] std::string Text() const {
    std::string text = "flowchart LR\n";
    for (const auto& [name, id] : ids_) {
      text += Format("  {}[\"{}\"]\n", id, Quoted(name));
    }
    return Cat(text, Joined(lines_, "\n"), lines_.empty() ? "" : "\n");
  }

 private:
  // Returns whether the graph may have this edge. Policies do not restrict what the node sends, and
  // connections past all allocations are not ours. A graph of namespaces leaves out edges within a
  // namespace.
  [[nodiscard]] bool IsAsked(const std::string& from, const std::string& to) const {
    const bool is_inside = from != kOutside || (to != kOutside && to != kNode);
    return from != kNode && is_inside && (from != to || of_ == GraphOf::kJobs);
  }

  // Returns every range of ports that an entry names.
  [[nodiscard]] std::vector<Ports> PortsNamed() const {
    std::set<Ports> named;
    for (const auto& each : ends_) {
      for (const policy::End& end : each.second) {
        if (!end.workload) {
          continue;
        }
        for (const policy::Direction direction :
             {policy::Direction::kTo, policy::Direction::kFrom}) {
          for (const policy::Policy& about : program_.PoliciesAbout(direction, *end.workload)) {
            AddPorts(about.allow, named);
            AddPorts(about.deny, named);
          }
        }
      }
    }
    return {named.begin(), named.end()};
  }

  static void AddPorts(const std::vector<policy::Entry>& entries, std::set<Ports>& named) {
    for (const policy::Entry& entry : entries) {
      named.insert(entry.ports.begin(), entry.ports.end());
    }
  }

  [[nodiscard]] bool Reaches(const std::vector<policy::End>& sources,
                             const std::vector<policy::End>& targets,
                             Protocol protocol,
                             std::uint16_t port) const {
    return std::ranges::any_of(sources, [&](const policy::End& from) {
      return std::ranges::any_of(targets, [&](const policy::End& to) {
        return Judge(program_, {.from = from, .to = to, .protocol = protocol, .port = port})
            .is_allowed;
      });
    });
  }

  // Returns "all" or "tcp/8080, tcp/9090-9199"; empty if no port is reached.
  [[nodiscard]] std::string ReachedPorts(const std::vector<policy::End>& sources,
                                         const std::vector<policy::End>& targets) const {
    constexpr auto kNoProtocol = static_cast<Protocol>(0);  // matches entries without ports
    if (Reaches(sources, targets, kNoProtocol, 0)) {
      return "all";
    }
    std::vector<std::string> reached;
    for (const Ports& ports : ports_) {
      if (Reaches(sources, targets, ports.protocol, ports.first)) {
        reached.push_back(policy::Text(ports));
      }
    }
    return Joined(reached, ", ");
  }

  [[nodiscard]] const std::string& Id(const std::string& name) const { return ids_.at(name); }

  // Returns `name` with its quotes written as Mermaid needs them.
  [[nodiscard]] static std::string Quoted(std::string name) {
    for (std::size_t at = name.find('"'); at != name.npos; at = name.find('"', at)) {
      name.replace(at, 1, "#quot;");
    }
    return name;
  }

  const policy::Program& program_;
  Ends ends_;
  GraphOf of_;
  std::vector<Ports> ports_;
  std::map<std::string, std::string> ids_;  // by name
  std::vector<std::string> lines_;
};

std::string PolicyGraph(state::Host& host, GraphOf of) {
  Holders holders;
  const Flows flows = ReadFlows(host, holders);
  Graph graph(host.policy.Program(), FindEnds(holders, of), of);
  graph.AddReach();
  graph.AddRefused(flows);
  return graph.Text();
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
  state::Host host = state::Host::OpenToLook();
  if (arguments.Has("graph")) {
    rules::RequireReadablePolicies(host);
    Print(PolicyGraph(host, arguments.Has("jobs") ? GraphOf::kJobs : GraphOf::kNamespaces));
    return kYes;
  }
  const Inventory inventory = TakeInventory(host);
  const Attachments found = FindOne(inventory, arguments.operands.front());
  const rules::InForce in_force(host);
  Json all = Json::array();
  for (const Attachment* const attachment : found) {
    all.push_back(Examine(host, in_force, *attachment));
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
