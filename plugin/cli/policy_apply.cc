// policy apply: puts the policies of the files in force.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include <unistd.h>

#include "base/file.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/attachment/apply_policies.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/command.h"
#include "plugin/cli/policy_view.h"
#include "plugin/policy/policy.h"
#include "plugin/rules/policy_tables.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::array kApplyFlags = {kDryRunFlag,
                                    Flag{"cut", nullptr, "ends connections that are refused now"},
                                    Flag{"v", nullptr, "a row for each allocation"},
                                    kJsonFlag};

// Returns "namespaces -> namespaces, api"; "namespaces" if nothing has changed.
std::string Changed(const std::string& before, const std::string& after) {
  return before == after ? after : Format("{} -> {}", before, after);
}

std::string AllocationOf(const state::Record& record) {
  const cni::ShortLabels labels = cni::Shorten(record.labels);
  const auto found = labels.find(cni::kAllocation);
  return found != labels.end() ? found->second : record.id.container_id;
}

// What was applied, or what a dry run would apply.
struct Applied {
  bool is_dry = false;
  std::size_t policies = 0;
  bool are_all_audited = false;  // true only if there are policies
  const policy::Program& program;
  attachment::ApplyReport report = {};
  std::optional<std::size_t> cut = {};  // ended connections; nullopt without -cut
};

// Returns the last cells of a row: the policies that apply before and after.
std::vector<Cell> ReachCells(const Applied& applied, const cni::Workload& workload) {
  const Reach before = ReachOf(applied.report.former, workload);
  const Reach after = ReachOf(applied.program, workload);
  return {Changed(before.in, after.in), Changed(before.out, after.out)};
}

std::vector<Cell> WorkloadCells(const cni::Workload& workload) {
  return {OrDash(workload.nomad_namespace), OrDash(workload.job), OrDash(workload.group)};
}

// Returns a table with a row for each group. All children of a periodic job are one row: they have
// the same policies.
std::string GroupTable(const Applied& applied) {
  std::map<cni::Workload, std::size_t> counts;
  for (const state::Record& record : applied.report.changed) {
    cni::Workload workload = record.Workload();
    workload.job = cni::ParentJob(workload.job);
    ++counts[workload];
  }
  Table table({"NS", "JOB", "GROUP", "ALLOCS", "REACHED BY", "REACHES BY"},
              {"NS", "GROUP", "REACHED BY", "REACHES BY"},
              "JOB");
  for (const auto& [workload, count] : counts) {
    std::vector<Cell> row = WorkloadCells(workload);
    row.emplace_back(Cat(count));
    Append(row, ReachCells(applied, workload));
    table.Add(row);
  }
  return table.Text();
}

std::string AllocationTable(const Applied& applied) {
  Table table({"ALLOC", "NS", "JOB", "GROUP", "REACHED BY", "REACHES BY"},
              {"NS", "GROUP", "REACHED BY", "REACHES BY"},
              "JOB");
  for (const state::Record& record : applied.report.changed) {
    std::vector<Cell> row = {ShortId(AllocationOf(record))};
    Append(row, WorkloadCells(record.Workload()));
    Append(row, ReachCells(applied, record.Workload()));
    table.Add(row);
  }
  return table.Text();
}

Json ReachJson(const Reach& reach) {
  return {{"reachedBy", reach.in}, {"reachesBy", reach.out}};
}

Json Document(const Applied& applied) {
  const auto change_json = [&](const state::Record& record) -> Json {
    const cni::Workload workload = record.Workload();
    return {{"allocation", AllocationOf(record)},
            {"containerId", record.id.container_id},
            {"network", record.id.network},
            {"namespace", workload.nomad_namespace},
            {"job", workload.job},
            {"group", workload.group},
            {"before", ReachJson(ReachOf(applied.report.former, workload))},
            {"after", ReachJson(ReachOf(applied.program, workload))}};
  };
  return {{"dryRun", applied.is_dry},
          {"policies", applied.policies},
          {"changed", ArrayOf(applied.report.changed, change_json)},
          {"cut", applied.cut.value_or(0)}};
}

// "3 policies in force; the reach of 2 attachments has changed; 1 connection ended"
std::string Summary(const Applied& applied) {
  return Format("{} {}{}; the reach of {} {}{}\n",
                Counted(applied.policies, "policy"),
                applied.is_dry ? "read" : "in force",
                applied.are_all_audited ? ", all in audit mode: nothing is closed" : "",
                Counted(applied.report.changed.size(), "attachment"),
                applied.is_dry ? "would change" : "has changed",
                applied.cut ? Format("; {} ended", Counted(*applied.cut, "connection")) : "");
}

// Throws if the directory is missing and the policies in force cannot be read. An apply would then
// remove all policies, which can hardly be intended.
void RequireReadOrDirectory(state::Host& host, const std::string& directory) {
  const std::optional<Error> unread =
      FindStatus(directory) ? std::nullopt : rules::FindPolicyReadError(host);
  if (unread) {
    throw Error(unread->code(),
                Format("'{}' does not exist, and the policies in force cannot be read: nothing is "
                       "changed",
                       directory),
                Format("name the directory that was applied: nomad-bridge policy apply DIR; or end "
                       "all policies: mkdir -p {} && nomad-bridge policy apply",
                       directory));
  }
}

void PrintApplied(const Applied& applied, bool is_verbose) {
  if (!applied.report.changed.empty()) {
    Print(is_verbose ? AllocationTable(applied) : GroupTable(applied));
  }
  WriteBestEffort(STDERR_FILENO, Summary(applied));
  RemarkOnUnseen(applied.report.unseen);
}

void RemarkOnNone(const policy::Policies& policies, const std::string& directory) {
  if (!policies.are_named) {
    LogLine(
        "'{}' {}: where policies are required, ADDs are refused until a file there has the key "
        "\"policies\"; an empty list is enough",
        directory,
        FindStatus(directory) ? "has no file of policies" : "does not exist");
  }
}

// Ends the connections that the policies in force refuse, if that is asked for. In any case lets
// connections that an earlier -cut has ended begin anew if they are allowed by now.
std::optional<std::size_t> Cut(state::Host& host, bool is_asked) {
  using More = conntrack::Conntrack::More;
  const std::size_t cut = attachment::CutRefused(host, is_asked ? More::kAll : More::kNone);
  return is_asked ? std::optional(cut) : std::nullopt;
}

int RunApply(const Arguments& arguments) {
  RequireRoot("policy apply");
  // Makes the path absolute: later commands compare these files, from other working directories.
  const std::string directory = std::filesystem::absolute(DirectoryOf(arguments));
  if (directory.find('\n') != directory.npos) {
    throw UsageError("the name of a directory of policies has no line end");
  }
  const policy::Policies policies = ReadRemarking(directory);
  const policy::Program program(policies);
  state::Host host = state::Host::Open();
  Applied applied{
      .is_dry = ModeOf(arguments) == Mode::kLook,
      .policies = policies.policies.size(),
      .are_all_audited = !policies.policies.empty() &&
                         std::ranges::all_of(policies.policies, &policy::Policy::is_audited),
      .program = program};
  RequireReadOrDirectory(host, directory);
  // If the directory does not exist and nothing was applied before, writes nothing: every ADD would
  // have to read the file.
  const bool has_none = !FindStatus(directory) && !state::PolicyFile::FindText();
  RemarkOnNone(policies, directory);
  if (!has_none) {
    applied.report = attachment::ApplyPolicies(
        host, program, policies.are_named ? directory : std::string(), ModeOf(arguments));
    applied.cut = applied.is_dry ? std::nullopt : Cut(host, arguments.Has("cut"));
  }
  if (arguments.Has("json")) {
    PrintDocument(Document(applied));
  } else if (!has_none) {
    PrintApplied(applied, arguments.Has("v"));
  }
  return kYes;
}

}  // namespace

const Command kPolicyApply = {
    .name = "policy apply",
    .operands = {"[DIR]", 0, 1},
    .summary = "puts the files of policies in force",
    .text =
        R"(Reads DIR, or /etc/nomad-bridge/policy.d, and changes what all allocations of
this node may reach, and be reached by, in one step. Prints whose reach
changes, by group (-v: by allocation): the policies that are about it, before
and after. Connections that have begun go on, unless -cut ends those that are
refused now. A file with an error changes nothing.
)",
    .flags = kApplyFlags,
    .run = RunApply};

}  // namespace nomad_bridge::cli
