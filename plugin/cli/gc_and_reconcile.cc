// reconcile and gc. Both work on all attachments, and report in the same form what they found.
//
// Shapes  For people: stdout has a line for each finding that a dry run found, and a summary;
//         stderr has the failures, and what was done (base/log.h). -json:
//         docs/schema/reconcile.json.
#include <algorithm>
#include <array>

#include "base/file.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "netlink/nft/change_socket.h"
#include "plugin/attachment/collect.h"
#include "plugin/attachment/reconcile.h"
#include "plugin/cli/command.h"
#include "plugin/cli/document.h"
#include "plugin/cli/terminal.h"
#include "plugin/state/events.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::array kBothFlags = {kDryRunFlag, kJsonFlag};

// Returns all findings, each once: first the repaired ones, then those that are left. If nothing is
// repaired, several networks on a bridge find the same.
FindingList AllOf(const Findings& findings) {
  FindingList all;
  for (const FindingList* const list : {&findings.repaired(), &findings.left()}) {
    for (const Finding& finding : *list) {
      if (std::ranges::find(all, finding.text, &Finding::text) == all.end()) {
        all.push_back(finding);
      }
    }
  }
  return all;
}

Json MismatchJson(const Finding& finding) {
  Json json = FindingJson(finding);
  json["area"] = Text(finding.area);
  json["owner"] = finding.owner;
  json["text"] = finding.text;
  json["repairable"] = finding.is_repairable;
  return json;
}

Json IdJson(const AttachmentId& id) {
  return {{"network", id.network}, {"containerId", id.container_id}, {"ifname", id.ifname}};
}

Json DocumentOf(std::string_view command, const attachment::ReconcileReport& report) {
  const FindingList found = AllOf(report.findings);
  std::vector<std::string> failed = TextsOf(report.failed);
  for (const Finding& finding : found) {
    if (report.findings.is_repairing() && !finding.is_repairable) {
      // The texts of other areas name their subject themselves.
      const bool is_containers =
          finding.area == Finding::Area::kPort || finding.area == Finding::Area::kLease;
      failed.push_back(Cat(is_containers ? Format("container '{}': ", finding.owner) : "",
                           finding.TextWithFix()));
    }
  }
  return {{"command", command},
          {"dryRun", !report.findings.is_repairing()},
          {"attachments", report.attachments},
          {"found", TextsOf(found)},
          {"mismatches", ArrayOf(found, MismatchJson)},
          {"failed", failed},
          {"busy", ArrayOf(report.busy, IdJson)}};
}

// Returns "3 repaired", "nothing to repair" or "3 found wrong, 1 could not be repaired"; for a dry
// run "2 to repair", "3 found wrong, 1 cannot be repaired" or "3 found wrong, 1 could not be
// examined".
std::string SummaryOf(const Json& document) {
  const bool is_gc = document.at("command") == kGc.name;
  const bool is_dry_run = document.at("dryRun");
  const std::string_view act = is_gc ? "take back" : "repair";
  const std::string_view done = is_gc ? "taken back" : "repaired";
  const Json& found = document.at("mismatches");
  const std::string wrong = Cat(found.size(), is_gc ? " found, " : " found wrong, ");
  if (const std::size_t failed = document.at("failed").size(); failed > 0) {
    return Cat(wrong, failed, " could not be ", is_dry_run ? "examined" : done);
  }
  const auto not_ours =
      std::ranges::count_if(found, [](const Json& each) -> bool { return !each.at("repairable"); });
  return found.empty()   ? Cat("nothing to ", act)
         : !is_dry_run   ? Cat(found.size(), ' ', done)
         : not_ours == 0 ? Cat(found.size(), " to ", act)
                         : Cat(wrong, not_ours, " cannot be ", done);
}

std::string TextOf(const Json& document) {
  std::string text;
  for (const Json& finding : document.at("dryRun") ? document.at("mismatches") : Json::array()) {
    const std::string line = Cat(ShowWithFix(finding), '\n');
    text += finding.at("fix") == "" ? Folded(line, 2) : line;  // a command stays in one line
  }
  text += Cat(Counted(document.at("attachments"), "attachment"), "; ", SummaryOf(document));
  if (const std::size_t busy = document.at("busy").size(); busy > 0) {
    text += Format("; {} left out, as {}",
                   busy,
                   busy == 1 ? "another command works on it" : "other commands work on them");
  }
  return Cat(text, '\n');
}

// Prints the `report` of `command`, and returns the exit code: kNo if something failed, or a dry
// run found something.
int Report(const Arguments& arguments,
           std::string_view command,
           const attachment::ReconcileReport& report) {
  const Json document = DocumentOf(command, report);
  if (arguments.Has("json")) {
    PrintDocument(document);
  } else {
    Print(TextOf(document));
  }
  for (const Json& failure : document.at("failed")) {
    LogLine("{}", Printable(failure.get<std::string>()));
  }
  return document.at("failed").empty() && report.findings.left().empty() ? kYes : kNo;
}

// Returns the exit code.
int Reconcile(const Arguments& arguments, bool is_for_rules) {
  state::Host host = state::Host::Open();
  const Mode mode = ModeOf(arguments);
  return Report(arguments,
                "reconcile",
                is_for_rules ? attachment::ReconcileRules(host, mode)
                             : attachment::ReconcileAll(
                                   host, mode, nullptr, ProgressOnTerminal("reconcile")));
}

int RunReconcile(const Arguments& arguments) {
  // If the socket unit has started this command, the socket has changes of rules: compares only the
  // rules. If the socket has no change, the timer or a person has started the command.
  const UniqueFd socket = nft::TakeChangeSocket();
  const bool is_for_rules = socket && nft::DrainChanges(socket);
  RequireRoot("reconcile");
  const bool is_counted = ModeOf(arguments) == Mode::kRepair;
  try {
    const int code = Reconcile(arguments, is_for_rules);
    if (is_counted && code != kYes) {
      state::CountFailedReconcile();
    }
    return code;
  } catch (const std::exception&) {
    if (is_counted) {
      state::CountFailedReconcile();
    }
    throw;
  }
}

int RunGc(const Arguments& arguments) {
  RequireRoot("gc");
  state::Host host = state::Host::Open();
  const Mode mode = ModeOf(arguments);
  return Report(
      arguments, "gc", attachment::Collect(host, {.rules = true}, mode, ProgressOnTerminal("gc")));
}

}  // namespace

const Command kReconcile = {
    .name = "reconcile",
    .summary = "repairs the host's side of all networks",
    .text =
        R"(Repairs what every running allocation has on the host, as its record says:
bridges, gateway addresses, forwarding, the host's ends of the veth pairs,
leases and rules. Then repairs other firewalls on this node, and names rules of
others that drop everything. Nothing inside an allocation is changed. Exit 1:
something could not be repaired, or with -dry-run: would be.
)",
    .flags = kBothFlags,
    .run = RunReconcile};

const Command kGc = {
    .name = "gc",
    .summary = "takes back what stale allocations hold",
    .text =
        R"(Removes in all networks the records, addresses and ports of allocations whose
namespace is gone, leases that nothing else belongs to, and elements of the
rules without an owner. Leaves running allocations alone. Exit 1: something
stayed, or with -dry-run: there is something.
)",
    .flags = kBothFlags,
    .run = RunGc};

}  // namespace nomad_bridge::cli
