// policy test: what becomes of one connection, and which rule decides.
#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/cli/command.h"
#include "plugin/cli/document.h"
#include "plugin/cli/inventory.h"
#include "plugin/cli/policy_view.h"
#include "plugin/cli/terminal.h"
#include "plugin/policy/judge.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::array kPolicyTestFlags = {
    Flag{"from", "END", "who opens the connection"},
    Flag{"to", "END", "who it leads to"},
    Flag{"port", "PORT", "the allocation's own, tcp/8080; or icmp"},
    Flag{"dir", "DIR", "policies, instead of those of /etc/nomad-bridge/policy.d"},
    kJsonFlag};

const std::string& RequireFlag(const Arguments& arguments, std::string_view name) {
  const std::string* const value = arguments.Find(name);
  return value != nullptr ? *value : throw UsageError(Cat("policy test needs -", name));
}

cni::Workload ParseWorkload(std::string_view text) {
  cni::ShortLabels labels;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view word = TakeUntil(',', rest);
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string_view key = word.substr(0, equals);
    if (equals == word.size() ||
        (key != cni::kNamespace && key != cni::kJob && key != cni::kGroup)) {
      throw UsageError(Format(
          "'{}' is no end of a connection; allowed: ns=NAMESPACE,job=JOB,group=GROUP, an address, "
          "node, outside",
          text));
    }
    labels[std::string(key)] = word.substr(equals + 1);
  }
  const cni::Workload workload = cni::WorkloadOf(labels);
  return !workload.nomad_namespace.empty()
             ? workload
             : throw UsageError(Format("'{}' lacks ns=NAMESPACE", text));
}

policy::End ParseEnd(const std::string& text) {
  if (text == "node" || text == "outside") {
    return {.is_node = text == "node"};
  }
  if (const std::optional<Ip> address = Ip::Parse(text)) {
    return {.address = address};
  }
  return {.workload = ParseWorkload(text)};
}

policy::Connection ParseConnection(const Arguments& arguments) {
  const std::string& port = RequireFlag(arguments, "port");
  const std::optional<policy::Ports> ports = policy::FindPorts(port);
  if (!ports ||
      (ports->protocol != policy::Ports::Protocol::kIcmp && ports->first != ports->last)) {
    throw UsageError(Format("'{}' is no port; allowed: tcp/8080, udp/53, sctp/5000, icmp", port));
  }
  return {.from = ParseEnd(RequireFlag(arguments, "from")),
          .to = ParseEnd(RequireFlag(arguments, "to")),
          .protocol = ports->protocol,
          .port = ports->first};
}

// Who has which address on this node.
struct Holders {
  std::vector<policy::End> allocations;  // living ones, once for each of their addresses
  std::set<Ip> of_node;
};

Holders FindHolders() {
  if (::geteuid() != 0) {
    return {};  // records cannot be read
  }
  state::Host host = state::Host::Open();
  Holders holders{.of_node = host.net.AllAddresses()};
  for (const Attachment& attachment : TakeInventory(host).attachments) {
    if (attachment.record && attachment.state != State::kDead) {
      for (const Cidr& cidr : attachment.record->ipam.addresses) {
        holders.allocations.push_back(
            {.workload = attachment.record->Workload(), .address = cidr.address});
      }
    }
  }
  return holders;
}

// Whether `typed`, in which job and group may be missing, describes `living`.
bool Describes(const cni::Workload& typed, const cni::Workload& living) {
  return typed.nomad_namespace == living.nomad_namespace &&
         (typed.job.empty() || typed.job == living.job ||
          typed.job == cni::ParentJob(living.job)) &&
         (typed.group.empty() || typed.group == living.group);
}

// What was typed, as the kernel sees it: an address with the labels of its allocation, labels with
// the addresses of theirs.
std::vector<policy::End> EndsOf(policy::End typed, const Holders& holders) {
  std::vector<policy::End> ends;
  for (const policy::End& living : holders.allocations) {
    const bool is_meant = typed.workload ? Describes(*typed.workload, *living.workload)
                                         : typed.address && typed.address == living.address;
    if (is_meant) {
      ends.push_back(living);
    }
  }
  if (ends.empty()) {
    typed.is_node = typed.is_node || (typed.address && holders.of_node.contains(*typed.address));
    ends.push_back(std::move(typed));
  }
  return ends;
}

// Between addresses of one family, or where they are not known; nobody asks itself by the network.
bool CanConnect(const policy::End& from, const policy::End& to) {
  return !from.address || !to.address ||
         (from.address->family() == to.address->family() && from.address != to.address);
}

std::vector<policy::Connection> ConnectionsOf(const policy::Connection& typed) {
  const Holders holders = FindHolders();
  std::vector<policy::Connection> connections;
  for (const policy::End& from : EndsOf(typed.from, holders)) {
    for (const policy::End& to : EndsOf(typed.to, holders)) {
      if (CanConnect(from, to)) {
        connections.push_back({from, to, typed.protocol, typed.port});
      }
    }
  }
  return connections.empty() ? std::vector{typed} : connections;
}

// The first refusal; without one what would be refused, or any.
policy::Answer Ask(const std::string& directory, const policy::Connection& typed) {
  try {
    const policy::Program program(ReadRemarking(directory));
    std::vector<policy::Answer> answers;
    for (const policy::Connection& connection : ConnectionsOf(typed)) {
      answers.push_back(Judge(program, connection));
    }
    const auto rank = [](const policy::Answer& answer) {
      return std::pair(answer.is_allowed, answer.would_be_refused_by.empty());
    };
    const auto [worst, best] = std::ranges::minmax_element(answers, {}, rank);
    if (worst->is_allowed != best->is_allowed) {
      LogLine("{}", "some allocations with these labels are allowed: policies name addresses");
    }
    return *worst;
  } catch (const Error& error) {
    throw CannotTell(error.what());  // exit 1 is an answer
  }
}

std::string InWords(const policy::Answer& answer) {
  return Cat(answer.is_allowed ? "allowed" : "refused",
             answer.by.empty() ? ": no policy refuses it" : Cat(" by ", answer.by),
             answer.would_be_refused_by.empty()
                 ? ""
                 : Cat("; in audit, would be refused by ", answer.would_be_refused_by),
             '\n');
}

int RunPolicyTest(const Arguments& arguments) {
  const policy::Connection connection = ParseConnection(arguments);
  const policy::Answer answer = Ask(DirectoryOf(arguments), connection);
  if (arguments.Has("json")) {
    const auto or_null = [](const std::string& rule) { return rule.empty() ? Json() : Json(rule); };
    PrintDocument({{"allowed", answer.is_allowed},
                   {"by", or_null(answer.by)},
                   {"wouldBeRefusedBy", or_null(answer.would_be_refused_by)}});
  } else {
    Print(InWords(answer));
  }
  return answer.is_allowed ? kYes : kNo;
}

}  // namespace

const Command kPolicyTest = {
    .name = "policy test",
    .operands = {},
    .summary = "whether one connection is allowed, and by which rule",
    .text =
        R"(Judges by the same rules as the kernel gets, of the files: whether they are in force is another
matter. Needs neither root nor a node; as root on a node it knows the allocations that live there.

  nomad-bridge policy test -from ns=prod,job=lb -to ns=prod,job=api -port tcp/8080

An END is an allocation by its labels, an address, `outside` (an address of no allocation on this
node, in no list), or `node`. The address of a living allocation stands for that allocation, with
its labels. Labels stand for all living allocations that have them, with their addresses: refused if
one is. "api#0" is the first allow of the policy api, "api#deny0" its first deny, "api" what it
leaves closed. Exit 0: allowed, 1: refused, 2: misunderstood.
)",
    .flags = kPolicyTestFlags,
    .run = RunPolicyTest};

}  // namespace nomad_bridge::cli
