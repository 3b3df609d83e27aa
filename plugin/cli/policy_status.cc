// policy status and show: what the kernel judges by, and what it has counted.
#include <array>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "firewall/table.h"
#include "plugin/attachment/apply_policies.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/command.h"
#include "plugin/cli/named_attachments.h"
#include "plugin/cli/policy_reach.h"
#include "plugin/policy/policy.h"
#include "plugin/rules/policy_tables.h"

namespace nomad_bridge::cli {
namespace {

using policy::CounterOf;

constexpr std::array kShowFlags = {
    Flag{"nft", nullptr, "the nft commands that print its chains and sets"}};
constexpr std::array kStatusFlags = {kJsonFlag};

// What the kernel has counted, by counter.
struct Count {
  std::uint64_t packets = 0;
  std::string since;
};

std::map<std::string, Count> ReadCounts(state::Host& host) {
  std::map<std::string, Count> counts;
  for (const nft::Counter& counter : host.nft.Counters(firewall::TableId())) {
    counts[counter.name] = {.packets = counter.packets, .since = counter.comment};
  }
  return counts;
}

// A rule's counts, of one policy.
struct RuleCounts {
  std::string policy;
  std::string mode;
  std::array<std::optional<Count>, 3> counts;  // in the order of CounterOf::What
};

std::map<std::string, RuleCounts> CountsByRule(state::Host& host) {
  const policy::Program& program = host.policy.Program();
  std::map<std::string, std::string> modes;
  for (const policy::Policy& each : program.ToPolicies().policies) {
    modes[each.name] = each.mode == policy::Mode::kAudit ? "audit" : "enforce";
  }
  const std::map<std::string, Count> counts = ReadCounts(host);
  std::map<std::string, RuleCounts> rules;
  for (const auto& [name, counter] : program.Counters()) {
    RuleCounts& rule = rules[counter.rule];
    rule.policy = counter.policy;
    rule.mode = modes[counter.policy];
    const auto found = counts.find(name);
    rule.counts.at(static_cast<std::size_t>(counter.what)) =
        found != counts.end() ? found->second : Count{.packets = 0, .since = "not in the kernel"};
  }
  return rules;
}

std::string ShowCount(const std::optional<Count>& count) {
  return count ? Cat(count->packets) : "-";
}

// "2026-11-24T06:40:00Z", of the counter that began last.
std::string SinceOf(const RuleCounts& rule) {
  constexpr std::string_view kWord = "since ";
  std::string since;
  for (const std::optional<Count>& count : rule.counts) {
    if (count && count->since > since) {
      since = count->since;
    }
  }
  return since.starts_with(kWord) ? since.substr(kWord.size()) : since;
}

void RemarkOnFiles(const FilesNow& now) {
  if (!now.error.empty()) {
    LogLine("the files in {} have errors: nomad-bridge policy check {}",
            now.directory,
            ShellWord(now.directory));
  } else if (now.differ) {
    LogLine("the files in {} differ from what is in force: nomad-bridge policy apply {}",
            now.directory,
            ShellWord(now.directory));
  }
}

Json RuleJson(const std::string& name, const RuleCounts& rule) {
  const auto count = [&](CounterOf::What what) {
    const std::optional<Count>& found = rule.counts.at(static_cast<std::size_t>(what));
    return found ? Json(found->packets) : Json();
  };
  return {{"rule", name},
          {"policy", rule.policy},
          {"mode", rule.mode},
          {"allowed", count(CounterOf::What::kAllowed)},
          {"refused", count(CounterOf::What::kRefused)},
          {"wouldBeRefused", count(CounterOf::What::kWouldBeRefused)},
          {"since", SinceOf(rule)}};
}

int RunStatus(const Arguments& arguments) {
  RequireRoot("policy status");
  state::Host host = state::Host::Open();
  const std::map<std::string, RuleCounts> rules = CountsByRule(host);
  const FilesNow files = CompareFiles(host);
  if (arguments.Has("json")) {
    Json all = Json::array();
    for (const auto& [name, rule] : rules) {
      all.push_back(RuleJson(name, rule));
    }
    PrintDocument({{"applied", host.policy.IsThere()},
                   {"directory", files.directory},
                   {"stale", files.error.empty() ? Json(files.differ) : Json()},
                   {"unseen", ArrayOf(attachment::FindUnseenTraffic(host), &Mismatch::text)},
                   {"rules", all}});
    return kYes;
  }
  if (!host.policy.IsThere()) {
    LogLine("{}", "no policies were applied since the node booted: nomad-bridge policy apply");
    return kYes;
  }
  Table table({"RULE", "MODE", "ALLOWED", "REFUSED", "WOULD BE REFUSED", "SINCE"}, "");
  for (const auto& [name, rule] : rules) {
    table.Add({name,
               rule.mode,
               ShowCount(rule.counts[0]),
               ShowCount(rule.counts[1]),
               ShowCount(rule.counts[2]),
               SinceOf(rule)});
  }
  Print(table.Text());
  RemarkOnFiles(files);
  RemarkOnUnseen(host);
  return kYes;
}

std::string PeerText(const policy::Step& step,
                     const std::map<std::string, std::string>& sets,
                     bool is_in) {
  using PeerIs = policy::Step::PeerIs;
  const std::string_view way = is_in ? "from" : "to";
  switch (step.peer) {
    case PeerIs::kMember: {
      const auto found = sets.find(step.peers);
      return Format(" {} {}", way, found != sets.end() ? found->second : step.peers);
    }
    case PeerIs::kAddress:
      return Format(" {} the addresses {}", way, step.peers);
    case PeerIs::kOutside:
      return Format(" {} outside", way);
    case PeerIs::kNode:
      return Format(" {} the node", way);
    case PeerIs::kAnyone:
      break;
  }
  return {};
}

std::string_view OutcomeText(policy::Step::Outcome outcome) {
  using Outcome = policy::Step::Outcome;
  switch (outcome) {
    case Outcome::kReturn:
    case Outcome::kGoto:
      return "allowed";
    case Outcome::kReject:
      return "refused";
    case Outcome::kDrop:
      return "dropped";
    case Outcome::kContinue:
      break;
  }
  return "counted";
}

std::string_view ProtocolText(policy::Ports::Protocol protocol) {
  using Protocol = policy::Ports::Protocol;
  switch (protocol) {
    case Protocol::kIcmp:
      return "icmp";
    case Protocol::kTcp:
      return "tcp";
    case Protocol::kUdp:
      return "udp";
    case Protocol::kSctp:
      break;
  }
  return "sctp";
}

// "tcp/8080", "tcp/9090-9199"
std::string PortsText(const std::optional<policy::Ports>& ports) {
  if (!ports) {
    return "everything";
  }
  std::string protocol(ProtocolText(ports->protocol));
  const policy::Ports all{.protocol = ports->protocol};
  if (*ports == all) {
    return protocol;
  }
  return ports->first == ports->last ? Format("{}/{}", protocol, ports->first)
                                     : Format("{}/{}-{}", protocol, ports->first, ports->last);
}

// A line per step: "api#0  allowed  tcp/8080 from namespace=prod job=lb  12"
void AddSteps(const policy::Chain& chain,
              const std::map<std::string, std::string>& sets,
              const std::map<std::string, Count>& counts,
              Table& table) {
  const bool is_in = chain.name.starts_with("in-");
  for (const policy::Step& step : chain.steps) {
    const auto count = counts.find(step.counter);
    table.Add({is_in ? "in" : "out",
               step.comment,
               std::string(OutcomeText(step.outcome)),
               Cat(PortsText(step.ports), PeerText(step, sets, is_in)),
               count != counts.end() ? Cat(count->second.packets) : "-"});
  }
}

std::vector<std::string> NftCommands(const state::Record& record,
                                     const std::vector<policy::Chain>& chains) {
  std::vector<std::string> commands;
  commands.reserve(chains.size());
  for (const policy::Chain& chain : chains) {
    commands.push_back(Format("nft list chain inet nomad-bridge {}", chain.name));
  }
  for (const nft::Element& element : rules::PolicyElements(record, "")) {
    const std::string command =
        Format("nft list {} inet nomad-bridge {}", element.verdict ? "map" : "set", element.set);
    if (!Contains(commands, command)) {
      commands.push_back(command);
    }
  }
  return commands;
}

void ShowAttachment(state::Host& host, const Attachment& attachment, const Arguments& arguments) {
  const policy::Program& program = host.policy.Program();
  const state::Record record = rules::Judged(*attachment.record, program);
  const cni::Workload workload = cni::WorkloadOf(cni::Shorten(record.labels));
  const std::vector<policy::Chain> chains = program.ChainsOf(workload);
  if (arguments.Has("nft")) {
    for (const std::string& command : NftCommands(record, chains)) {
      Print(Cat(command, '\n'));
    }
    return;
  }
  const Reach reach = ReachOf(program.ToPolicies(), workload);
  Print(Format("Allocation  {}  {}\nReached by  {}\nReaches by  {}\n",
               ShortId(attachment.Allocation()),
               cni::Describe(record.labels),
               reach.in == "-" ? "everything: no policy is about it" : reach.in,
               reach.out == "-" ? "everything: no policy is about it" : reach.out));
  if (chains.empty()) {
    return;
  }
  const std::map<std::string, Count> counts = ReadCounts(host);
  Table table({"WAY", "RULE", "IS", "WHAT", "COUNT"}, "");
  for (const policy::Chain& chain : chains) {
    AddSteps(chain, program.SetTexts({workload.nomad_namespace}), counts, table);
  }
  Print(table.Text());
}

int RunShow(const Arguments& arguments) {
  RequireRoot("policy show");
  state::Host host = state::Host::Open();
  const Inventory inventory = TakeInventory(host);
  const Attachments found = FindOne(inventory, arguments.operands.front());
  for (const Attachment* const attachment : found) {
    if (attachment->record) {
      ShowAttachment(host, *attachment, arguments);
    }
  }
  return found.empty() ? kNo : kYes;
}

}  // namespace

const Command kPolicyShow = {
    .name = "policy show",
    .operands = {"ALLOC|JOB|GROUP|VETH|ADDRESS|PORT", 1, 1},
    .summary = "what the policies in force make of an allocation",
    .text =
        R"(The policies that are about it, and the rules by which the kernel judges a new connection, in
their order, with what each has counted.
)",
    .flags = kShowFlags,
    .run = RunShow};

const Command kPolicyStatus = {
    .name = "policy status",
    .operands = {},
    .summary = "what each rule of the policies in force has counted",
    .text =
        R"(New connections that each rule has allowed or refused, or, of a policy in audit mode, would
have refused; and since when. A rule that stays the same goes on counting when policies are
applied. Says whether the files that were applied have changed since, and which traffic no policy
sees.
)",
    .flags = kStatusFlags,
    .run = RunStatus};

}  // namespace nomad_bridge::cli
