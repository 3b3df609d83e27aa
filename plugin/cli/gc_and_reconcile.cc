// reconcile and gc. Both work on all attachments, and report in the same form what they found.
//
// Shapes  For people: stdout has a line for each finding that a dry run found, and a summary;
//         stderr has the failures, and what was done (base/log.h). -json:
//         docs/schema/reconcile.json.
#include <algorithm>
#include <array>

#include <unistd.h>

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
#include "plugin/state/host.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::array kBothFlags = {kDryRunFlag, kJsonFlag};

// Returns all findings: first the repaired ones, then those that are left.
FindingList AllOf(const Findings& findings) {
  FindingList all = findings.repaired();
  Append(all, findings.left());
  return all;
}

// Returns a line for each failure, and for each finding that could not be repaired.
std::vector<std::string> FailuresOf(const attachment::ReconcileReport& report) {
  std::vector<std::string> failures = TextsOf(report.failed);
  for (const Finding& finding : report.findings.left()) {
    if (report.findings.is_repairing() && !finding.is_repairable) {
      // The texts of other areas name their subject themselves.
      const bool is_containers =
          finding.area == Finding::Area::kPort || finding.area == Finding::Area::kLease;
      failures.push_back(Cat(is_containers ? Format("container '{}': ", finding.owner) : "",
                             finding.TextWithFix()));
    }
  }
  return failures;
}

Json ToJson(std::string_view command, const attachment::ReconcileReport& report) {
  const FindingList found = AllOf(report.findings);
  const auto mismatch_json = [](const Finding& finding) -> Json {
    return {{"area", Text(finding.area)},
            {"owner", finding.owner},
            {"text", finding.text},
            {"repairable", finding.is_repairable},
            {"fix", finding.fix.command},
            {"advice", finding.fix.advice}};
  };
  const auto id_json = [](const AttachmentId& id) -> Json {
    return {{"network", id.network}, {"containerId", id.container_id}, {"ifname", id.ifname}};
  };
  return {{"command", command},
          {"dryRun", !report.findings.is_repairing()},
          {"attachments", report.attachments},
          {"found", ArrayOf(found, &Finding::text)},
          {"mismatches", ArrayOf(found, mismatch_json)},
          {"failed", FailuresOf(report)},
          {"busy", ArrayOf(report.busy, id_json)}};
}

// Returns "3 repaired", "nothing to repair" or "3 found wrong, 1 could not be repaired"; for a dry
// run "2 to repair", "3 found wrong, 1 cannot be repaired" or "3 found wrong, 1 could not be
// examined".
std::string SummaryOf(std::string_view command, const attachment::ReconcileReport& report) {
  const bool is_gc = command == kGc.name;
  const bool is_repairing = report.findings.is_repairing();
  const std::string_view act = is_gc ? "take back" : "repair";
  const std::string_view done = is_gc ? "taken back" : "repaired";
  const std::size_t found = AllOf(report.findings).size();
  if (const std::size_t failed = FailuresOf(report).size(); failed > 0) {
    return Format("{} {}, {} could not be {}",
                  found,
                  is_gc ? "found" : "found wrong",
                  failed,
                  is_repairing ? done : "examined");
  }
  if (found == 0) {
    return Cat("nothing to ", act);
  }
  if (is_repairing) {
    return Cat(found, ' ', done);
  }
  const auto& left = report.findings.left();
  const auto not_ours = std::ranges::count(left, false, &Finding::is_repairable);
  return not_ours == 0 ? Format("{} to {}", found, act)
                       : Format("{} {}, {} cannot be {}",
                                found,
                                is_gc ? "found" : "found wrong",
                                not_ours,
                                done);
}

std::string TextOf(std::string_view command, const attachment::ReconcileReport& report) {
  std::string text;
  if (!report.findings.is_repairing()) {
    for (const Finding& finding : report.findings.left()) {
      const std::string fix = ShowFix(finding.fix);
      text += Cat(Printable(finding.text), fix.empty() ? "" : "; ", fix, '\n');
    }
  }
  text += Cat(Counted(report.attachments, "attachment"), "; ", SummaryOf(command, report));
  if (!report.busy.empty()) {
    text += Format(
        "; {} left out, as {}",
        report.busy.size(),
        report.busy.size() == 1 ? "another command works on it" : "other commands work on them");
  }
  return text + '\n';
}

// Returns a function that shows a counter on stderr, if stderr is a terminal.
attachment::Progress ProgressOnTerminal(std::string_view command) {
  if (::isatty(STDERR_FILENO) == 0) {
    return [](std::size_t, std::size_t) {};
  }
  return [command](std::size_t done, std::size_t all) {
    constexpr std::size_t kStep = 32;
    if (done == all) {
      WriteBestEffort(STDERR_FILENO, "\r\x1b[K");
    } else if (done % kStep == 0) {
      WriteBestEffort(STDERR_FILENO, Format("\r{} {} of {}", command, done, all));
    }
  };
}

// Prints the `report` of `command`, and returns the exit code: kNo if something failed, or a dry
// run found something.
int Report(const Arguments& arguments,
           std::string_view command,
           const attachment::ReconcileReport& report) {
  if (arguments.Has("json")) {
    PrintDocument(ToJson(command, report));
  } else {
    Print(TextOf(command, report));
  }
  const std::vector<std::string> failures = FailuresOf(report);
  for (const std::string& failure : failures) {
    LogLine("{}", Printable(failure));
  }
  return failures.empty() && report.findings.left().empty() ? kYes : kNo;
}

int RunReconcile(const Arguments& arguments) {
  // If the socket unit has started this command, the socket has changes of rules: compares only the
  // rules. If the socket has no change, the timer or a person has started the command.
  const UniqueFd socket = nft::TakeChangeSocket();
  const bool is_for_rules = socket && nft::DrainChanges(socket);
  RequireRoot("reconcile");
  state::Host host = state::Host::Open();
  const Mode mode = ModeOf(arguments);
  return Report(arguments,
                "reconcile",
                is_for_rules ? attachment::ReconcileRules(host, mode)
                             : attachment::ReconcileAll(
                                   host, mode, nullptr, ProgressOnTerminal("reconcile")));
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
