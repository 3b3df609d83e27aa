// policy status and show: what the kernel judges by, and what it has counted.
#include <array>
#include <map>
#include <optional>

#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/attachment/apply_policies.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/command.h"
#include "plugin/cli/named_attachments.h"
#include "plugin/cli/policy_view.h"
#include "plugin/policy/policy.h"
#include "plugin/rules/policy_tables.h"

namespace nomad_bridge::cli {
namespace {

using What = policy::CounterOf::What;

constexpr std::array kShowFlags = {
    Flag{"nft", nullptr, "the nft commands that print its chains and sets"}};
constexpr std::array kStatusFlags = {kJsonFlag};

int RunStatus(const Arguments& arguments) {
  RequireRoot("policy status");
  state::Host host = state::Host::Open();
  rules::RequireReadPolicies(host);
  const std::vector<RuleCount> counts = CountByRule(host);
  const FilesNow files = CompareFiles(host);
  if (arguments.Has("json")) {
    PrintDocument({{"applied", host.policy.AreApplied()},
                   {"directory", files.directory},
                   {"stale", files.differ ? Json(*files.differ) : Json()},
                   {"unseen", ArrayOf(attachment::FindUnseenTraffic(host), &Mismatch::text)},
                   {"rules", ArrayOf(counts, RuleJson)}});
    return kYes;
  }
  if (!host.policy.AreApplied()) {
    LogLine("{}",
            "no policies were applied since the node booted (a directory without files is none): "
            "nomad-bridge policy apply");
    return kYes;
  }
  Table table({"RULE", "MODE", "ALLOWED", "REFUSED", "WOULD BE REFUSED", "SINCE"}, "");
  for (const RuleCount& count : counts) {
    const auto packets_if = [&](What what) {
      return count.what == what ? Cat(count.packets) : "-";
    };
    table.Add({count.rule,
               count.Mode(),
               packets_if(What::kAllowed),
               packets_if(What::kRefused),
               packets_if(What::kWouldBeRefused),
               count.since});
  }
  Print(table.Text());
  if (!files.text.empty()) {
    LogLine("{}; {}", files.text, files.fix.Line());
  }
  RemarkOnUnseen(attachment::FindUnseenTraffic(host));
  return kYes;
}

// " from namespace=prod job=lb"; empty for anyone.
std::string PeerText(const policy::Step& step,
                     const std::map<std::string, std::string>& sets,
                     bool is_in) {
  using PeerIs = policy::Step::PeerIs;
  const std::string_view way = is_in ? " from " : " to ";
  switch (step.peer) {
    case PeerIs::kMember: {
      const auto set = sets.find(step.peers);
      return Cat(way, set != sets.end() ? set->second : step.peers);
    }
    case PeerIs::kAddress:
      return Cat(way, "the addresses ", step.peers);
    case PeerIs::kOutside:
      return Cat(way, "outside");
    case PeerIs::kNode:
      return Cat(way, "the node");
    case PeerIs::kAnyone:
      break;
  }
  return {};
}

// In the order of Step::Outcome.
constexpr std::array<std::string_view, 5> kOutcomes = {"counted",
                                                       "allowed",
                                                       "allowed",
                                                       "refused",
                                                       "dropped"};

// A line per step: "api#0  allowed  tcp/8080 from namespace=prod job=lb  12"
void AddSteps(const policy::Chain& chain,
              const std::map<std::string, std::string>& sets,
              const std::map<std::string, nft::Counter>& counters,
              Table& table) {
  const bool is_in = chain.name.starts_with("in-");
  for (const policy::Step& step : chain.steps) {
    const auto counter = counters.find(step.counter);
    table.Add({is_in ? "in" : "out",
               step.comment,
               std::string(kOutcomes.at(static_cast<std::size_t>(step.outcome))),
               Cat(step.ports ? Text(*step.ports) : "everything", PeerText(step, sets, is_in)),
               counter != counters.end() ? Cat(counter->second.packets) : "-"});
  }
}

std::vector<std::string> NftCommands(const state::Record& record,
                                     const std::vector<policy::Chain>& chains) {
  std::vector<std::string> commands;
  const auto add = [&](std::string_view kind, const std::string& name) {
    const std::string command = Format("nft list {} inet nomad-bridge {}", kind, name);
    if (!Contains(commands, command)) {
      commands.push_back(command);
    }
  };
  for (const policy::Chain& chain : chains) {
    add("chain", chain.name);
    add("chain", rules::AnswersOf(chain.name));
    for (const std::string& set : rules::SetsAskedBy(chain)) {
      add("set", set);
    }
  }
  for (const nft::Element& element : rules::PolicyElements(record, "")) {
    add(element.verdict ? "map" : "set", element.set);
  }
  return commands;
}

void ShowAttachment(state::Host& host, const Attachment& attachment, const Arguments& arguments) {
  const policy::Program& program = host.policy.Program();
  const state::Record record = rules::WithPolicies(*attachment.record, program);
  const cni::Workload workload = record.Workload();
  const std::vector<policy::Chain> chains = program.ChainsOf(workload);
  if (arguments.Has("nft")) {
    for (const std::string& command : NftCommands(record, chains)) {
      Print(Cat(command, '\n'));
    }
    return;
  }
  const Reach reach = ReachOf(program, workload);
  Print(Format("Allocation  {}  {}\nReached by  {}\nReaches by  {}\n",
               ShortId(attachment.Allocation()),
               cni::Describe(record.labels),
               reach.in == "-" ? "everything: no policy is about it" : reach.in,
               reach.out == "-" ? "everything: no policy is about it" : reach.out));
  if (chains.empty()) {
    return;
  }
  const std::map<std::string, nft::Counter> counters = ReadCounters(host);
  Table table({"WAY", "RULE", "IS", "WHAT", "COUNT"}, "");
  const std::map<std::string, std::string> sets = program.SetTexts({workload.nomad_namespace});
  for (const policy::Chain& chain : chains) {
    AddSteps(chain, sets, counters, table);
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
