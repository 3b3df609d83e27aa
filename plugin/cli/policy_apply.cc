// policy apply: the policies of the files put in force.
#include <array>

#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/attachment/apply_policies.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/command.h"
#include "plugin/cli/policy_reach.h"
#include "plugin/policy/policy.h"

namespace nomad_bridge::cli {
namespace {

constexpr std::array kApplyFlags = {kDryRunFlag,
                                    Flag{"cut", nullptr, "ends connections that are refused now"},
                                    kJsonFlag};
std::string DirectoryOf(const Arguments& arguments) {
  return arguments.operands.empty() ? policy::kPolicyDirectory : arguments.operands.front();
}

// Remarks are on stderr.
policy::Program ReadProgram(const std::string& directory) {
  std::vector<std::string> remarks;
  policy::Program program(policy::ReadPolicies(directory, remarks));
  for (const std::string& remark : remarks) {
    LogLine("{}", remark);
  }
  return program;
}

cni::Workload WorkloadOf(const state::Record& record) {
  return cni::WorkloadOf(cni::Shorten(record.labels));
}

// "namespaces -> namespaces, api"
std::string Changed(const std::string& before, const std::string& after) {
  return before == after ? after : Format("{} -> {}", before, after);
}

std::string AllocationOf(const state::Record& record) {
  const cni::ShortLabels labels = cni::Shorten(record.labels);
  const auto found = labels.find(cni::kAllocation);
  return found != labels.end() ? found->second : record.id.container_id;
}

std::string ReachTable(const std::vector<attachment::ReachChange>& changes,
                       const policy::Policies& former,
                       const policy::Policies& policies) {
  Table table({"ALLOC", "NAMESPACE", "JOB", "GROUP", "REACHED BY", "REACHES BY"});
  for (const attachment::ReachChange& change : changes) {
    const cni::Workload workload = WorkloadOf(change.after);
    const Reach before = ReachOf(former, workload);
    const Reach after = ReachOf(policies, workload);
    table.Add({ShortId(AllocationOf(change.after)),
               OrDash(workload.nomad_namespace),
               OrDash(workload.job),
               OrDash(workload.group),
               Changed(before.in, after.in),
               Changed(before.out, after.out)});
  }
  return table.Text();
}

Json ChangeJson(const attachment::ReachChange& change,
                const policy::Policies& former,
                const policy::Policies& policies) {
  const cni::Workload workload = WorkloadOf(change.after);
  const Reach before = ReachOf(former, workload);
  const Reach after = ReachOf(policies, workload);
  return {{"allocation", AllocationOf(change.after)},
          {"containerId", change.after.id.container_id},
          {"network", change.after.id.network},
          {"namespace", workload.nomad_namespace},
          {"job", workload.job},
          {"group", workload.group},
          {"before", {{"reachedBy", before.in}, {"reachesBy", before.out}}},
          {"after", {{"reachedBy", after.in}, {"reachesBy", after.out}}}};
}

policy::Policies FormerPolicies(state::Host& host) {
  try {
    return host.policy.Program().ToPolicies();
  } catch (const Error&) {
    return {};  // damaged: apply replaces them
  }
}

int RunApply(const Arguments& arguments) {
  RequireRoot("policy apply");
  const std::string directory = DirectoryOf(arguments);
  const policy::Program program = ReadProgram(directory);
  state::Host host = state::Host::Open();
  if (!FindStatus(directory) && FormerPolicies(host).policies.empty()) {
    // A node without policies stays without the file that every ADD would read.
    LogLine("there are no policies: '{}' does not exist", directory);
    return kYes;
  }
  const policy::Policies former = FormerPolicies(host);
  const policy::Policies policies = program.ToPolicies();
  const bool is_dry = arguments.Has("dry-run");
  const std::vector<attachment::ReachChange> changes =
      attachment::ApplyPolicies(host, program, is_dry ? Mode::kLook : Mode::kRepair);
  const std::size_t cut =
      arguments.Has("cut") && !is_dry ? attachment::CutRefused(host) : std::size_t{0};
  if (arguments.Has("json")) {
    PrintDocument({{"dryRun", is_dry},
                   {"policies", policies.policies.size()},
                   {"changed",
                    ArrayOf(changes,
                            [&](const attachment::ReachChange& change) {
                              return ChangeJson(change, former, policies);
                            })},
                   {"cut", cut}});
    return kYes;
  }
  if (!changes.empty()) {
    Print(ReachTable(changes, former, policies));
  }
  WriteBestEffort(
      STDERR_FILENO,
      Format(
          "{} {}; the reach of {} {}{}\n",
          policies.policies.size() == 1 ? "1 policy" : Cat(policies.policies.size(), " policies"),
          is_dry ? "read" : "in force",
          Counted(changes.size(), "attachment"),
          is_dry ? "would change" : "has changed",
          arguments.Has("cut") && !is_dry ? Format("; {} ended", Counted(cut, "connection")) : ""));
  return kYes;
}

}  // namespace

const Command kPolicyApply = {
    .name = "policy apply",
    .operands = {"[DIR]", 0, 1},
    .summary = "puts the policies of /etc/nomad-bridge/policy.d in force",
    .text =
        R"(Reads DIR, or /etc/nomad-bridge/policy.d, and changes what all allocations of this node may
reach, and be reached by, in one step. Prints whose reach changes: the policies that are about
each, before and after. Connections that have begun go on, unless -cut ends those that are
refused now. A file with an error changes nothing.
)",
    .flags = kApplyFlags,
    .run = RunApply};

}  // namespace nomad_bridge::cli
