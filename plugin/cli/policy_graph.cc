#include "plugin/cli/policy_graph.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/list.h"
#include "base/text.h"
#include "plugin/cli/policy_flows.h"
#include "plugin/cli/policy_view.h"
#include "plugin/policy/judge.h"

namespace nomad_bridge::cli {
namespace {

using policy::Ports;

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
  std::set<cni::Workload> known;
  for (const Holder& holder : holders.allocations) {
    if (known.insert(*holder.end.workload).second) {
      ends[NameOf(holder.end, of)].push_back(holder.end);
    }
  }
  ends[kOutside] = {policy::End{}};
  ends[kNode] = {policy::End{.is_node = true}};
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

}  // namespace

std::string PolicyGraph(state::Host& host, GraphOf of) {
  Holders holders;
  const Flows flows = ReadFlows(host, holders);
  Graph graph(host.policy.Program(), FindEnds(holders, of), of);
  graph.AddReach();
  graph.AddRefused(flows);
  return graph.Text();
}

}  // namespace nomad_bridge::cli
