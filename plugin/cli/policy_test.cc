// policy test: says what happens to one connection, and which rule decides.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/cli/command.h"
#include "plugin/cli/document.h"
#include "plugin/cli/inventory.h"
#include "plugin/cli/policy_ends.h"
#include "plugin/cli/policy_view.h"
#include "plugin/cli/terminal.h"
#include "plugin/policy/judge.h"

namespace nomad_bridge::cli {
namespace {

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

std::optional<policy::Ports> ParsePort(const Arguments& arguments) {
  const std::string* const port = arguments.Find("port");
  if (port == nullptr) {
    return std::nullopt;
  }
  const std::optional<policy::Ports> ports = policy::FindPorts(*port);
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
  NodeNow node = {.inventory = TakeInventory(*host), .holders = {}};
  node.holders = FindHolders(*host, node.inventory);
  return node;
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
    host = state::Host::Open();
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

Json SideJson(const policy::End& end, const policy::Opinion& opinion) {
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
that lives here by its job, group, ID, interface or published port. A port that
the node publishes leads to the allocation behind it. A word stands for all
that it describes: refused if one is. "api#0" is the first allow of the policy
api, "api#deny0" its first deny, "api" what it leaves closed. Exit 0: allowed,
1: refused, 2: wrong arguments, or no answer.
)",
    .flags = kPolicyTestFlags,
    .run = RunPolicyTest};

}  // namespace nomad_bridge::cli
