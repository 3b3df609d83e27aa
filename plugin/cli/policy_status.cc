// policy status: shows what the rules have counted, and whether they are still the rules of the
// files.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "plugin/attachment/apply_policies.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/command.h"
#include "plugin/cli/policy_flows.h"
#include "plugin/cli/policy_log.h"
#include "plugin/cli/policy_view.h"
#include "plugin/policy/policy.h"
#include "plugin/rules/check_ruleset.h"
#include "plugin/rules/policy_tables.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::array kStatusFlags = {
    Flag{"flows", nullptr, "refused connections, and the entries that would allow them"},
    Flag{"watch", nullptr, "with -flows: again every two seconds, until a key is pressed"},
    Flag{"since", "TIME", "with -flows: those in the journal, such as -since yesterday"},
    Flag{"log", nullptr, "with -flows: what is new since the last -log, for the journal"},
    kJsonFlag};

constexpr std::string_view kFull =
    "a set of flows is full (4096): new flows may be missing until older flows expire (1 h)";

// Returns the flows. If there are none, says since when the rules are in the kernel: rules that
// were lost and repaired have forgotten earlier flows.
std::string FlowsText(state::Host& host, const Json& document) {
  if (!document.at("flows").empty()) {
    return ShowFlows(document);
  }
  std::vector<RuleCount> counts = CountByRule(host);
  std::erase_if(counts, [](const RuleCount& count) { return count.since.empty(); });
  const auto eldest = std::ranges::min_element(counts, {}, &RuleCount::since);
  return Format(
      "policies have refused nothing within the last hour, and would refuse nothing{}\n",
      eldest == counts.end() ? "" : Cat("; their rules are in the kernel since ", eldest->since));
}

std::string LoggedFlowsText(const Json& document, const std::string& since) {
  return document.at("flows").empty()
             ? Format("the journal has no flow since '{}' (nomad-bridge-flows.timer)\n", since)
             : ShowLoggedFlows(document);
}

// Prints the flows every two seconds until a key is pressed.
void WatchFlows(state::Host& host) {
  constexpr std::chrono::milliseconds kPause{2000};
  const KeyMode keys;
  Holders known;
  RecallHolders(known);
  do {
    host.policy.Refresh();
    Print(
        Cat(kClearScreen, FlowsText(host, ToJson(ReadFlows(host, known))), "any key ends this\n"));
  } while (!keys.Await(kPause));
}

int RunFlows(state::Host& host, const Arguments& arguments) {
  if (arguments.Has("watch")) {
    WatchFlows(host);
    return kYes;
  }
  if (arguments.Has("log")) {
    LogFlows(host, arguments.Has("json"));
    return kYes;
  }
  Holders known;
  RecallHolders(known);
  const std::string* const since = arguments.Find("since");
  const Json document =
      ToJson(since == nullptr ? ReadFlows(host, known) : ReadJournal(host, *since));
  if (arguments.Has("json")) {
    PrintDocument(document);
    return kYes;
  }
  Print(since == nullptr ? FlowsText(host, document) : LoggedFlowsText(document, *since));
  if (!document.at("complete")) {
    LogLine("{}", kFull);
  }
  return kYes;
}

// Returns how the kernel's rules differ from ours.
FindingList FindDamages(state::Host& host) {
  Findings damages(Mode::kLook);
  rules::CheckRuleset(host, damages, nullptr);
  return damages.left();
}

Cell ShowCount(const Json& rule) {
  for (const char* const key : {"allowed", "refused"}) {
    if (!rule.at(key).is_null()) {
      return ShowPlain(rule.at(key));
    }
  }
  return ShowPlain(rule.at("wouldBeRefused"));
}

constexpr std::array kRuleColumns = {Column{"RULE", "/rule", ShowPlain, Cuts::kFirst},
                                     Column{"IS", "/text", ShowPlain, Cuts::kFirst},
                                     Column{"MODE", "/mode"},
                                     Column{"COUNT", "", ShowCount},
                                     Column{"SINCE", "/since"}};

void RequireUsage(const Arguments& arguments) {
  int ways = 0;
  for (const char* const flag : {"watch", "log", "since"}) {
    if (arguments.Has(flag)) {
      ++ways;
      if (!arguments.Has("flows")) {
        throw UsageError(Format("-{} is for -flows", flag));
      }
    }
  }
  if (ways > 1 || (arguments.Has("watch") && arguments.Has("json"))) {
    throw UsageError("-watch, -log and -since exclude each other, and -watch and -json do");
  }
}

int RunStatus(const Arguments& arguments) {
  RequireRoot("policy status");
  RequireUsage(arguments);
  state::Host host = state::Host::OpenToLook();
  rules::RequireReadablePolicies(host);
  if (!host.policy.AreApplied() && !arguments.Has("json")) {
    LogLine("{}",
            "no policies were applied since the node booted (a directory without files does not "
            "count): nomad-bridge policy apply");
  }
  if (arguments.Has("flows")) {
    return RunFlows(host, arguments);
  }
  const FilesNow files = CompareFiles(host);
  const FindingList damages = FindDamages(host);
  const FindingList unseen = attachment::FindUnseenTraffic(host);
  const Json document = {{"applied", host.policy.AreApplied()},
                         {"directory", files.directory},
                         {"stale", files.differ ? Json(*files.differ) : Json()},
                         {"unseen", ArrayOf(unseen, &Finding::text)},
                         {"damages", ArrayOf(damages, &Finding::text)},
                         {"rules", ArrayOf(CountByRule(host), RuleJson)}};
  const Exit answer = files.differ.value_or(true) || !damages.empty() ? kNo : kYes;
  if (arguments.Has("json")) {
    PrintDocument(document);
    return answer;
  }
  for (const Finding& damage : damages) {
    LogLine("{}; {}", damage.text, Fix("nomad-bridge reconcile").Line());
  }
  if (host.policy.AreApplied()) {
    Print(TableOf(document.at("rules"), kRuleColumns));
    if (!files.text.empty()) {
      LogLine("{}; {}", files.text, files.fix.Line());
    }
    RemarkOnUnseen(unseen);
  }
  return answer;
}

}  // namespace

const Command kPolicyStatus = {
    .name = "policy status",
    .operands = {},
    .summary = "what each rule of the policies in force has counted",
    .text =
        R"(New connections that each rule has allowed or refused, or, of a policy in audit
mode, would have refused; and since when. A rule that stays the same goes on
counting when policies are applied. Says whether the files that were applied
have changed since, whether the kernel's rules are still ours, and which
traffic no policy sees. Exit 0: files, policies in force and rules agree; 1:
they differ.

-flows lists the connections that were refused within the last hour, or, of a
policy in audit mode, would have been: source and target, by the allocations
that have the addresses now; the target's own port; how many packets tried; and
what the policies in force make of it. Below are the entries that would let
them pass. nomad-bridge-flows.timer logs each flow once, and again when another
rule decides, to the journal: -since reads it there, with the names that both
ends had then.
)",
    .flags = kStatusFlags,
    .run = RunStatus};

}  // namespace nomad_bridge::cli
