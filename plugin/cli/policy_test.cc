// policy test: says what happens to one connection, and which rule decides.
#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <unistd.h>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/cli/command.h"
#include "plugin/cli/document.h"
#include "plugin/cli/inventory.h"
#include "plugin/cli/named_attachments.h"
#include "plugin/cli/policy_view.h"
#include "plugin/cli/terminal.h"
#include "plugin/policy/judge.h"

namespace nomad_bridge::cli {
namespace {

using policy::End;
using policy::Ports;

// The node as it is now.
struct NodeNow {
  Inventory inventory;
  std::set<Ip> addresses;
};

struct TypedConnection {
  std::string from;
  std::string to;
  // The target's own port, or a port that the node publishes. nullopt: `to` is a published port.
  std::optional<Ports> ports;
};

constexpr const char* kWords =
    "allowed: ns=NAMESPACE,job=JOB,group=GROUP, an address, node, outside, or the job, group, ID, "
    "interface or published port of an allocation that lives here";

// An end of the connection. `ports` is nullopt if the typed words give no port for it.
struct Target {
  End end;
  std::optional<Ports> ports = {};
};

Target TargetOf(const state::Record& record, const portmap::DnatEntry& published) {
  return {{.workload = record.Workload(), .address = published.container_ip},
          Ports{published.protocol, published.container_port, published.container_port}};
}

// Returns the living ones of `found`, with each address; those that publish `port`, if there are
// any, with what is behind this port.
std::vector<Target> LivingTargets(const Attachments& found, const std::string& port) {
  std::vector<Target> targets;
  std::vector<Target> published;
  for (const Attachment* const each : found) {
    if (!each->record || each->state == State::kDead) {
      continue;
    }
    const state::Record& record = *each->record;
    for (const Cidr& cidr : record.ipam.addresses) {
      targets.push_back({{.workload = record.Workload(), .address = cidr.address}});
    }
    for (const portmap::DnatEntry& entry : record.rules.ports) {
      if (std::to_string(entry.host_port) == port) {
        published.push_back(TargetOf(record, entry));
      }
    }
  }
  return !published.empty() ? published : targets;
}

// Returns the allocation that these filters describe, as if it had no address.
Target Unplaced(const Filters& filters, const std::string& word) {
  cni::ShortLabels labels;
  for (const auto& [key, value] : filters) {
    if ((key != cni::kNamespace && key != cni::kJob && key != cni::kGroup) ||
        value.find(',') != value.npos) {
      throw UsageError(Format("'{}' cannot be an END; {}", word, kWords));
    }
    labels[key] = value;
  }
  const cni::Workload workload = cni::WorkloadOf(labels);
  return !workload.nomad_namespace.empty()
             ? Target{{.workload = workload}}
             : throw UsageError(Format("'{}' lacks ns=NAMESPACE", word));
}

std::vector<Target> TargetsAt(const Ip& address, const std::optional<NodeNow>& node) {
  if (!node) {
    return {{End{.address = address}}};
  }
  std::vector<Target> targets =
      LivingTargets(FindAll(node->inventory, {{"addr", address.Text()}}), "");
  std::erase_if(targets, [&](const Target& target) { return target.end.address != address; });
  return !targets.empty() ? targets
                          : std::vector{Target{{.address = address,
                                                .is_node = node->addresses.contains(address)}}};
}

std::vector<Target> TargetsOf(const std::string& word, const std::optional<NodeNow>& node) {
  if (word == "node" || word == "outside") {
    return {{End{.is_node = word == "node"}}};
  }
  if (const std::optional<Ip> address = Ip::Parse(word)) {
    return TargetsAt(*address, node);
  }
  const Filters filters = ParseFilters(word);
  const bool is_name = filters.front().first.empty();
  if (!node && is_name) {
    throw CannotTell(Format("cannot tell without root what '{}' is; {}", word, kWords));
  }
  std::vector<Target> targets;
  if (node) {
    const auto port =
        std::ranges::find(filters, is_name ? "" : "port", &Filters::value_type::first);
    targets = LivingTargets(
        is_name ? FindAlike(node->inventory, word) : FindAll(node->inventory, filters),
        port != filters.end() ? port->second : "");
  }
  if (targets.empty() && is_name) {
    throw CannotTell(Format("'{}' cannot be an END; {}", word, kWords));
  }
  return !targets.empty() ? targets : std::vector{Unplaced(filters, word)};
}

// Returns the allocations to which the node's published port leads; none if the node itself answers
// on the port.
std::vector<Target> PublishedAt(const End& end, const Ports& ports, const Inventory& inventory) {
  std::vector<Target> targets;
  for (const Attachment& attachment : inventory.attachments) {
    if (!attachment.record) {
      continue;
    }
    for (const portmap::DnatEntry& entry : attachment.record->rules.ports) {
      if (entry.protocol == ports.protocol && entry.host_port == ports.first &&
          (!entry.host_ip || !end.address || entry.host_ip == end.address)) {
        targets.push_back(TargetOf(*attachment.record, entry));
      }
    }
  }
  return targets;
}

// Returns whether both addresses have the same family, or an address is unknown.
bool CanConnect(const End& from, const End& to) {
  return !from.address || !to.address || from.address->family() == to.address->family();
}

// Returns each possible target, with the port to connect to.
std::vector<Target> TargetsOf(const TypedConnection& typed, const std::optional<NodeNow>& node) {
  std::vector<Target> to = TargetsOf(typed.to, node);
  std::vector<Target> targets;
  for (Target& target : to) {
    target.ports = typed.ports ? typed.ports : target.ports;
    if (!target.ports) {
      throw UsageError("policy test needs -port, unless -to is a published port");
    }
    std::vector<Target> published;
    if (target.end.is_node && node) {
      published = PublishedAt(target.end, *target.ports, node->inventory);
    }
    Append(targets, !published.empty() ? std::move(published) : std::vector{std::move(target)});
  }
  return targets;
}

// Returns all connections that may be meant. A word stands for all living allocations that it
// describes, with their addresses. A published port of the node stands for the allocation behind
// it.
std::vector<policy::Connection> ConnectionsOf(const TypedConnection& typed,
                                              const std::optional<NodeNow>& node) {
  const std::vector<Target> targets = TargetsOf(typed, node);
  std::vector<policy::Connection> connections;
  for (const Target& source : TargetsOf(typed.from, node)) {
    for (const Target& target : targets) {
      if (CanConnect(source.end, target.end)) {
        connections.push_back(
            {source.end, target.end, target.ports->protocol, target.ports->first});
      }
    }
  }
  if (connections.empty()) {
    throw UsageError(
        Format("'{}' and '{}' have no address family in common", typed.from, typed.to));
  }
  return connections;
}

constexpr std::array kPolicyTestFlags = {
    Flag{"from", "END", "the side that opens the connection"},
    Flag{"to", "END", "the target of the connection"},
    Flag{"port", "PORT", "the target's own port: tcp/8080, icmp; for node: a published port"},
    Flag{"dir", "DIR", "policies, instead of those in force"},
    kJsonFlag};

const std::string& RequireFlag(const Arguments& arguments, std::string_view name) {
  const std::string* const value = arguments.Find(name);
  return value != nullptr ? *value : throw UsageError(Cat("policy test needs -", name));
}

std::optional<Ports> ParsePort(const Arguments& arguments) {
  const std::string* const port = arguments.Find("port");
  if (port == nullptr) {
    return std::nullopt;
  }
  const std::optional<Ports> ports = policy::FindPorts(*port);
  return ports && (ports->protocol == Protocol::kIcmp || ports->first == ports->last)
             ? ports
             : throw UsageError(
                   Format("'{}' is no port; allowed: tcp/8080, udp/53, sctp/5000, icmp", *port));
}

// Returns the policies in force if we are root and the node has any; otherwise the policies of the
// files.
policy::Program ProgramFor(const Arguments& arguments, std::optional<state::Host>& host) {
  if (!arguments.Has("dir") && host && host->policy.AreApplied()) {
    if (const FilesNow files = CompareFiles(*host); files.differ.value_or(true)) {
      LogLine("{}; this tests the policies in force, and -dir DIR tests the files", files.text);
    }
    return host->policy.Program();
  }
  return policy::Program(ReadRemarking(DirectoryOf(arguments)));
}

std::optional<NodeNow> FindNodeNow(std::optional<state::Host>& host) {
  if (!host) {
    return std::nullopt;
  }
  return NodeNow{.inventory = TakeInventory(*host), .addresses = host->net.AllAddresses()};
}

// A connection that may be meant, with the decision of the policies.
struct Judged {
  policy::Connection connection;
  policy::Answer answer;
};

// Returns the first refused connection; else the first that audit mode would refuse; else the
// first.
Judged JudgeWorst(const Arguments& arguments, const TypedConnection& typed) {
  std::optional<state::Host> host;
  if (::geteuid() == 0) {
    host = state::Host::OpenToLook();
  }
  const policy::Program program = ProgramFor(arguments, host);
  std::vector<Judged> all;
  for (policy::Connection& connection : ConnectionsOf(typed, FindNodeNow(host))) {
    policy::Answer answer = Judge(program, connection);
    all.push_back({std::move(connection), std::move(answer)});
  }
  const auto rank = [](const Judged& judged) {
    return std::pair(judged.answer.is_allowed, judged.answer.WouldBeRefusedBy().empty());
  };
  const auto [worst, best] = std::ranges::minmax_element(all, {}, rank);
  if (worst->answer.is_allowed != best->answer.is_allowed) {
    LogLine("{}", "not all connections between these ends are refused: addresses or ports differ");
  }
  return *worst;
}

Json SideJson(const End& end, const policy::Opinion& opinion) {
  return {{"end", Text(end)},
          {"by", OrNull(opinion.by)},
          {"wouldBeRefusedBy", OrNull(opinion.would_be_refused_by)}};
}

// Returns the rules that decided at the ends: "egress#0 at the source, dev/etl".
std::vector<std::string> RulesBy(const Json& document, const char* key) {
  std::vector<std::string> rules;
  for (const char* const place : {"source", "target"}) {
    const Json& side = document.at(place);
    if (!side.at(key).is_null()) {
      rules.push_back(
          Format("{} at the {}, {}", PlainText(side.at(key)), place, PlainText(side.at("end"))));
    }
  }
  return rules;
}

std::string InWords(const Json& document) {
  constexpr std::string_view kAnd = ", and by ";
  const std::vector<std::string> by = RulesBy(document, "by");
  const std::vector<std::string> would = RulesBy(document, "wouldBeRefusedBy");
  if (!document.at("allowed")) {
    return Cat("refused by ", by.back(), '\n');  // the source's policies are asked first
  }
  return Cat(by.empty() ? "allowed: no policy refuses it" : Cat("allowed by ", Joined(by, kAnd)),
             would.empty() ? "" : Cat("; in audit, would be refused by ", Joined(would, kAnd)),
             '\n');
}

int RunPolicyTest(const Arguments& arguments) {
  const TypedConnection typed = {.from = RequireFlag(arguments, "from"),
                                 .to = RequireFlag(arguments, "to"),
                                 .ports = ParsePort(arguments)};
  const Judged judged = [&] {
    try {
      return JudgeWorst(arguments, typed);
    } catch (const Error& error) {
      throw CannotTell(error.what());  // exit code 1 would mean "refused"
    }
  }();
  const policy::Answer& answer = judged.answer;
  const Json document = {{"allowed", answer.is_allowed},
                         {"source", SideJson(judged.connection.from, answer.source)},
                         {"target", SideJson(judged.connection.to, answer.target)}};
  if (arguments.Has("json")) {
    PrintDocument(document);
  } else {
    Print(InWords(document));
  }
  return answer.is_allowed ? kYes : kNo;
}

}  // namespace

const Command kPolicyTest = {
    .name = "policy test",
    .operands = {},
    .summary = "whether one connection is allowed, and by which rule",
    .text =
        R"(As root on a node, judges by the policies in force; else, and with -dir, by the
files. Says which rule decides at which end.

  nomad-bridge policy test -from ns=prod,job=lb -to ns=prod,job=api \
    -port tcp/8080
  nomad-bridge policy test -from outside -to 8080

An END is `node`, `outside` (an address of no allocation on this node, in no
list), an address, or an allocation by its labels; for root also an allocation
that lives here by its job, group, ID, interface or published port, or by
filters, as for list. A port that the node publishes leads to the allocation
behind it. A word stands for all
that it describes: refused if one is. "api#0" is the first allow of the policy
api, "api#deny0" its first deny, "api" what it leaves closed. Exit 0: allowed,
1: refused, 2: wrong arguments, or no answer.
)",
    .flags = kPolicyTestFlags,
    .run = RunPolicyTest};

}  // namespace nomad_bridge::cli
