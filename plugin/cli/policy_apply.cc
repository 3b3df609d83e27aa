// policy apply: puts the policies of the files in force.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/attachment/apply_policies.h"
#include "plugin/attachment/cut_connections.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/command.h"
#include "plugin/cli/inventory.h"
#include "plugin/cli/policy_flows.h"
#include "plugin/cli/policy_view.h"
#include "plugin/config/node_config.h"
#include "plugin/policy/policy.h"
#include "plugin/rules/policy_tables.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::array kApplyFlags = {kDryRunFlag,
                                    Flag{"cut", nullptr, "ends connections that are refused now"},
                                    Flag{"v", nullptr, "a row for each allocation"},
                                    kJsonFlag};

std::string AllocationOf(const state::Record& record) {
  const cni::ShortLabels labels = cni::Shorten(record.labels);
  const auto found = labels.find(cni::kAllocation);
  return found != labels.end() ? found->second : record.id.container_id;
}

// Returns the rules of all policies about connections to the workload, and from it:
// "namespaces: allow from same-namespace".
Json RulesJson(const policy::Program& program, const cni::Workload& workload) {
  Json rules = Json::array();
  for (const policy::Direction direction : {policy::Direction::kTo, policy::Direction::kFrom}) {
    for (const policy::Policy& each : program.PoliciesAbout(direction, workload)) {
      for (const std::string& rule : policy::RulesOf(each)) {
        rules.push_back(Cat(each.name, ": ", rule));
      }
    }
  }
  return rules;
}

Json SideJson(const policy::Program& program, const state::Record& record) {
  const cni::Workload workload = record.Workload();
  Json side = ReachJson(program, workload, rules::JudgementOf(record, program));
  side["rules"] = RulesJson(program, workload);
  return side;
}

Json ChangesJson(const attachment::ApplyReport& report, const policy::Program& program) {
  return ArrayOf(report.changed, [&](const state::Record& record) -> Json {
    const cni::Workload workload = record.Workload();
    return {{"allocation", AllocationOf(record)},
            {"containerId", record.id.container_id},
            {"network", record.id.network},
            {"namespace", workload.nomad_namespace},
            {"job", workload.job},
            {"group", workload.group},
            {"before", SideJson(report.former, record)},
            {"after", SideJson(program, record)}};
  });
}

// Returns "namespaces -> namespaces, api"; "namespaces" if nothing has changed.
Cell ShowChange(const Json& row, const char* key) {
  const std::string before = row.at("before").at(key);
  const std::string after = row.at("after").at(key);
  return before == after ? after : Format("{} -> {}", before, after);
}

Cell ShowReachedBy(const Json& row) {
  return ShowChange(row, "reachedBy");
}

Cell ShowReachesBy(const Json& row) {
  return ShowChange(row, "reachesBy");
}

constexpr std::array kGroupColumns = {Column{"NS", "/namespace", ShowPlain, Cuts::kFirst},
                                      Column{"JOB", "/job", ShowPlain, Cuts::kLast},
                                      Column{"GROUP", "/group", ShowPlain, Cuts::kFirst},
                                      Column{"ALLOCS", "/allocations"},
                                      Column{"REACHED BY", "", ShowReachedBy, Cuts::kFirst},
                                      Column{"REACHES BY", "", ShowReachesBy, Cuts::kFirst}};

constexpr std::array kAllocationColumns = {Column{"ALLOC", "/allocation", ShowShortId},
                                           Column{"NS", "/namespace", ShowPlain, Cuts::kFirst},
                                           Column{"JOB", "/job", ShowPlain, Cuts::kLast},
                                           Column{"GROUP", "/group", ShowPlain, Cuts::kFirst},
                                           Column{"REACHED BY", "", ShowReachedBy, Cuts::kFirst},
                                           Column{"REACHES BY", "", ShowReachesBy, Cuts::kFirst}};

// Returns a row for each group. All children of a periodic job are one row: they have the same
// policies.
Json ByGroup(const Json& changed) {
  std::map<std::array<std::string, 3>, Json> groups;
  for (Json row : changed) {
    row["job"] = cni::ParentJob(row.at("job"));
    row["allocations"] = 0;
    Json& group = groups[{row.at("namespace"), row.at("job"), row.at("group")}];
    if (group.is_null()) {
      group = row;
    }
    group["allocations"] = group.at("allocations").get<int>() + 1;
  }
  return ArrayOf(groups, [](const auto& each) { return each.second; });
}

// Returns a line for each rule that `from` has and `to` lacks.
std::string RulesOnlyIn(const Json& from, const Json& to, std::string_view sign) {
  std::string lines;
  for (const Json& rule : from) {
    if (std::ranges::find(to, rule) == to.end()) {
      lines += Format("  {} {}\n", sign, PlainText(rule));
    }
  }
  return lines;
}

// Returns which rules the groups have gained and lost, with one heading for all groups that have
// the same changes.
std::string ShowRules(const Json& groups) {
  std::map<std::string, std::vector<std::string>> names;  // by lines
  for (const Json& group : groups) {
    const Json& before = group.at("before").at("rules");
    const Json& after = group.at("after").at("rules");
    std::vector<std::string> path = {group.at("namespace"), group.at("job"), group.at("group")};
    std::erase(path, "");
    names[RulesOnlyIn(after, before, "+") + RulesOnlyIn(before, after, "-")].push_back(
        Joined(path, "/"));
  }
  names.erase("");
  std::string text;
  for (const auto& [lines, changed] : names) {
    text += Format("\n{}\n{}", Joined(changed, ", "), lines);
  }
  return text;
}

// Returns whether the policies only note what they would refuse.
bool AreAllAudited(const policy::Program& program) {
  return std::ranges::all_of(program.Counters(),
                             [](const auto& counter) { return counter.second.is_audited; });
}

// Returns "3 policies in force; the reach of 2 attachments has changed; 1 connection ended".
std::string Summary(const Json& document, bool is_audit, bool is_cut) {
  const bool is_dry = document.at("dryRun");
  return Format(
      "{} {}{}; {} of {} {}{}\n",
      Counted(document.at("policies").get<std::size_t>(), "policy"),
      is_dry ? "read" : "in force",
      is_audit ? ", in audit mode: connections are noted only, and nothing is closed" : "",
      is_audit ? "what is noted" : "the reach",
      Counted(document.at("changed").size(), "attachment"),
      is_dry ? "would change" : "has changed",
      is_cut ? Format("; {} ended", Counted(document.at("cut"), "connection")) : "");
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

std::string ShowChanges(const Json& changed, bool is_verbose) {
  if (changed.empty()) {
    return "";
  }
  const Json groups = ByGroup(changed);
  return Cat(is_verbose ? TableOf(changed, kAllocationColumns) : TableOf(groups, kGroupColumns),
             ShowRules(groups));
}

// Returns whether stderr leads to systemd's journal, as systemd.exec(5) says of JOURNAL_STREAM.
bool IsStderrTheJournal() {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat status {};
  return stream != nullptr && ::fstat(STDERR_FILENO, &status) == 0 &&
         Cat(std::uint64_t{status.st_dev}, ':', std::uint64_t{status.st_ino}) == stream;
}

std::string ShowEnding(const Json& flows) {
  return flows.empty() ? ""
                       : Cat("\nThese connections of the last hour would be refused:\n",
                             ShowFlowsThatWouldEnd({{"flows", flows}}));
}

// Tells the person who typed the command that there are no policies. Also says so if policies are
// required.
// The unit that runs at each boot has nothing to log about a node without policies.
void RemarkOnNone(const policy::Policies& policies, const std::string& directory) {
  const bool are_required = config::ReadNodeConfig().policy_required;
  if (policies.are_named || (!are_required && IsStderrTheJournal())) {
    return;
  }
  LogLine("'{}' {}{}",
          directory,
          FindStatus(directory) ? "has no file of policies" : "does not exist",
          are_required ? ": ADDs are refused until a file there has the key \"policies\"; an empty "
                         "list is enough"
                       : "");
}

// Returns the living attachments of which we have no record, so that nobody knows their labels.
// They keep what is in force for them.
Json UnrecordedJson(state::Host& host) {
  Json unrecorded = Json::array();
  for (const Attachment& attachment : TakeInventory(host).attachments) {
    if (attachment.IsRecordLost() && attachment.link) {
      unrecorded.push_back(
          {{"containerId", attachment.id.container_id}, {"network", attachment.id.network}});
    }
  }
  return unrecorded;
}

void RemarkOnUnrecorded(const Json& unrecorded) {
  for (const Json& each : unrecorded) {
    LogLine("container '{}' of network '{}' has no record: policies stay as they were for it; {}",
            PlainText(each.at("containerId")),
            PlainText(each.at("network")),
            kLostRecordAdvice);
  }
}

struct Applied {
  attachment::ApplyReport report;
  Flows ending;         // what -dry-run has found
  std::size_t cut = 0;  // connections that -cut has ended
};

// Puts the policies in force, or finds what that would change. `directory` has their files.
Applied Apply(state::Host& host,
              const policy::Program& program,
              const std::string& directory,
              const Arguments& arguments) {
  using attachment::More;
  const Mode mode = ModeOf(arguments);
  Applied applied = {.report = attachment::ApplyPolicies(host, program, directory, mode)};
  if (mode == Mode::kLook) {
    applied.ending = FlowsThatWouldEnd(host, program);
    return applied;
  }
  // Even without -cut: connections that an earlier -cut has ended may begin anew if they are
  // allowed by now.
  const bool is_cut = arguments.Has("cut");
  const std::size_t ended = attachment::CutRefused(host, is_cut ? More::kAll : More::kNone);
  applied.cut = is_cut ? ended : 0;
  return applied;
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
  RequireReadOrDirectory(host, directory);
  // If the directory does not exist and nothing was applied before, writes nothing: every ADD would
  // have to read the file.
  const bool has_none = !FindStatus(directory) && !state::PolicyFile::FindText();
  RemarkOnNone(policies, directory);
  const Applied applied =
      has_none ? Applied()
               : Apply(host, program, policies.are_named ? directory : std::string(), arguments);
  const bool is_dry = ModeOf(arguments) == Mode::kLook;
  const Json document = {{"dryRun", is_dry},
                         {"policies", policies.policies.size()},
                         {"changed", ChangesJson(applied.report, program)},
                         {"wouldEnd", ToJson(applied.ending).at("flows")},
                         {"cut", applied.cut},
                         {"unrecorded", program.empty() ? Json::array() : UnrecordedJson(host)}};
  if (arguments.Has("json")) {
    PrintDocument(document);
  } else if (!has_none) {
    Print(Cat(ShowChanges(document.at("changed"), arguments.Has("v")),
              ShowEnding(document.at("wouldEnd"))));
    const bool is_audit =
        !program.empty() && AreAllAudited(program) && AreAllAudited(applied.report.former);
    WriteBestEffort(STDERR_FILENO, Summary(document, is_audit, arguments.Has("cut") && !is_dry));
    RemarkOnUnseen(applied.report.unseen);
    RemarkOnUnrecorded(document.at("unrecorded"));
  }
  return applied.ending.flows.empty() && document.at("unrecorded").empty() ? kYes : kNo;
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
refused now. A file with an error changes nothing. Exit 1: nothing was changed,
or a running allocation has no record, and keeps the policies that it had.

-dry-run also lists the flows of the last hour and the connections open now that
the files would refuse, with the entries that would keep them. Exit 1: there are
any.
)",
    .flags = kApplyFlags,
    .run = RunApply};

}  // namespace nomad_bridge::cli
