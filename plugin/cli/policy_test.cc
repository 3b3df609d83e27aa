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
#include "plugin/rules/in_force.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::cli {
namespace {

using policy::End;
using policy::Ports;

// The node as it is now.
struct NodeNow {
  Inventory inventory;
  std::vector<Ip> addresses;  // that allocations may reach
  rules::InForce in_force;
  // Set if other policies are tested than those in force.
  const policy::Program* other = nullptr;

  [[nodiscard]] End EndOf(const Attachment& attachment, const Ip& address) const {
    End end = {.workload = cni::WorkloadOf(attachment.labels), .address = address};
    if (other == nullptr) {
      end.in_force = in_force.Of(address);
    } else if (attachment.record) {
      end.in_force = rules::InForceBy(*other, *attachment.record);
    }
    return end;
  }
  // Returns the ends of a living attachment, one for each address.
  [[nodiscard]] std::vector<End> EndsOf(const Attachment& attachment) const {
    std::vector<End> ends;
    if (attachment.state == State::kDead) {
      return ends;
    }
    for (const Ip& address : attachment.record
                                 ? AddressesOnly(attachment.record->ipam.addresses)
                                 : in_force.AddressesOf(state::HostVethName(attachment.id))) {
      ends.push_back(EndOf(attachment, address));
    }
    return ends;
  }
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

Target TargetOf(const NodeNow& node,
                const Attachment& attachment,
                const portmap::DnatEntry& published) {
  return {node.EndOf(attachment, published.container_ip),
          Ports{published.protocol, published.container_port, published.container_port}};
}

// Returns the living ones of `found`, with each address; those that publish `port`, if there are
// any, with what is behind this port.
std::vector<Target> LivingTargets(const NodeNow& node,
                                  const Attachments& found,
                                  const std::string& port) {
  std::vector<Target> targets;
  std::vector<Target> published;
  for (const Attachment* const each : found) {
    for (End& end : node.EndsOf(*each)) {
      targets.push_back({std::move(end)});
    }
    if (!each->record || each->state == State::kDead) {
      continue;
    }
    for (const portmap::DnatEntry& entry : each->record->rules.ports) {
      if (std::to_string(entry.host_port) == port) {
        published.push_back(TargetOf(node, *each, entry));
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
  std::vector<Target> targets;
  for (const Attachment& attachment : node->inventory.attachments) {
    for (End& end : node->EndsOf(attachment)) {
      if (end.address == address) {
        targets.push_back({std::move(end)});
      }
    }
  }
  const bool is_node = Contains(node->addresses, address);
  return !targets.empty() ? targets : std::vector{Target{{.address = address, .is_node = is_node}}};
}

// Returns the node with each of its addresses; without any, if they are not known.
std::vector<Target> TargetsOfNode(const std::optional<NodeNow>& node) {
  std::vector<Target> targets;
  for (const Ip& address : node ? node->addresses : std::vector<Ip>()) {
    targets.push_back({{.address = address, .is_node = true}});
  }
  return !targets.empty() ? targets : std::vector{Target{{.is_node = true}}};
}

std::vector<Target> TargetsOf(const std::string& word, const std::optional<NodeNow>& node) {
  if (word == "node") {
    return TargetsOfNode(node);
  }
  if (word == "outside") {
    return {{End{}}};
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
        *node,
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
std::vector<Target> PublishedAt(const End& end, const Ports& ports, const NodeNow& node) {
  std::vector<Target> targets;
  for (const Attachment& attachment : node.inventory.attachments) {
    if (!attachment.record) {
      continue;
    }
    for (const portmap::DnatEntry& entry : attachment.record->rules.ports) {
      if (entry.protocol == ports.protocol && entry.host_port == ports.first &&
          (!entry.host_ip || !end.address || entry.host_ip == end.address)) {
        targets.push_back(TargetOf(node, attachment, entry));
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
      published = PublishedAt(target.end, *target.ports, *node);
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

std::optional<NodeNow> FindNodeNow(std::optional<state::Host>& host,
                                   const policy::Program& program) {
  if (!host) {
    return std::nullopt;
  }
  NodeNow node = {
      .inventory = TakeInventory(*host), .addresses = {}, .in_force = rules::InForce(*host)};
  for (const Ip& address : host->net.AllAddresses()) {
    if (!address.IsLoopback() && !address.IsLinkLocal()) {
      node.addresses.push_back(address);
    }
  }
  if (program.Revision() != host->policy.Program().Revision()) {
    node.other = &program;
  }
  return node;
}

// A connection that may be meant, with the decision of the policies.
struct Judged {
  policy::Connection connection;
  policy::Answer answer;
};

// Throws if the answer is not known.
policy::Answer AnswerTo(const policy::Program& program, const policy::Connection& connection) {
  policy::Answer answer = Judge(program, connection);
  if (!answer.unknown_chain.empty()) {
    throw CannotTell(
        Format("the kernel judges '{}' or '{}' by other policies than those in force; "
               "`nomad-bridge policy status` says more",
               Text(connection.from),
               Text(connection.to)));
  }
  if (answer.needs_address) {
    throw CannotTell("this depends on the node's address: name an address, or ask as root there");
  }
  return answer;
}

// Returns all connections that may be meant; first those that are refused, then those that audit
// mode would refuse.
std::vector<Judged> JudgeAll(const Arguments& arguments, const TypedConnection& typed) {
  std::optional<state::Host> host;
  if (::geteuid() == 0) {
    host = state::Host::OpenToLook();
  }
  const policy::Program program = ProgramFor(arguments, host);
  std::vector<Judged> all;
  for (policy::Connection& connection : ConnectionsOf(typed, FindNodeNow(host, program))) {
    policy::Answer answer = AnswerTo(program, connection);
    all.push_back({std::move(connection), std::move(answer)});
  }
  const auto rank = [](const Judged& judged) {
    return std::pair(judged.answer.is_allowed, judged.answer.WouldBeRefusedBy().empty());
  };
  std::ranges::stable_sort(all, {}, rank);
  return all;
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

Json AnswerJson(const Judged& judged) {
  return {{"allowed", judged.answer.is_allowed},
          {"source", SideJson(judged.connection.from, judged.answer.source)},
          {"target", SideJson(judged.connection.to, judged.answer.target)}};
}

// Returns the answer for each address of the node, if they differ.
Json AnswersByAddress(const std::vector<Judged>& all) {
  Json answers = Json::array();
  std::set<std::string> different;
  for (const Judged& judged : all) {
    Json answer = AnswerJson(judged);
    different.insert(answer.dump());
    answer["address"] = judged.connection.to.address ? judged.connection.to.address->Text() : "";
    answers.push_back(std::move(answer));
  }
  return different.size() > 1 ? answers : Json::array();
}

int RunPolicyTest(const Arguments& arguments) {
  const TypedConnection typed = {.from = RequireFlag(arguments, "from"),
                                 .to = RequireFlag(arguments, "to"),
                                 .ports = ParsePort(arguments)};
  const std::vector<Judged> all = [&] {
    try {
      return JudgeAll(arguments, typed);
    } catch (const Error& error) {
      throw CannotTell(error.what());  // exit code 1 would mean "refused"
    }
  }();
  Json document = AnswerJson(all.front());
  document["byAddress"] = typed.to == "node" ? AnswersByAddress(all) : Json::array();
  const Json& answers = document.at("byAddress");
  if (arguments.Has("json")) {
    PrintDocument(document);
  } else if (!answers.empty()) {
    Print(Joined(answers, "", [](const Json& each) {
      return Format("{}: {}", PlainText(each.at("address")), InWords(each));
    }));
  } else {
    Print(InWords(document));
    if (all.front().answer.is_allowed != all.back().answer.is_allowed) {
      LogLine("{}",
              "not all connections between these ends are refused: addresses or ports differ");
    }
  }
  return all.front().answer.is_allowed ? kYes : kNo;
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
