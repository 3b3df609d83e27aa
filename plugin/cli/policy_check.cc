// policy check: names everything that `policy apply` would refuse.
#include <algorithm>
#include <set>

#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/text.h"
#include "plugin/cli/command.h"
#include "plugin/cli/inventory.h"
#include "plugin/cli/policy_view.h"
#include "plugin/cli/terminal.h"
#include "plugin/policy/glob.h"
#include "plugin/policy/policy.h"

namespace nomad_bridge::cli {
namespace {

std::vector<policy::Selector> SelectorsOf(const policy::Policy& policy) {
  std::vector<policy::Selector> all = {policy.selector};
  for (const policy::Peer* const peer : PeersOf(policy)) {
    if (peer->kind == policy::Peer::Kind::kSelector) {
      all.push_back(peer->selector);
    }
  }
  return all;
}

// Returns `selector`, with the labels of `workload` in place of those that do not select it.
std::string NearTo(const cni::Workload& workload, policy::Selector selector) {
  if (!policy::Selects({.nomad_namespace = selector.nomad_namespace}, workload)) {
    selector.nomad_namespace = policy::Literally(workload.nomad_namespace);
  }
  if (!policy::Selects({.nomad_namespace = "*", .job = selector.job}, workload)) {
    selector.job = policy::Literally(cni::ParentJob(workload.job));
  }
  if (!policy::Selects({.nomad_namespace = "*", .group = selector.group}, workload)) {
    selector.group = policy::Literally(workload.group);
  }
  return policy::Text(selector);
}

// Prints a remark if `selector` selects no workload. This is no error: the job may not run yet.
void WarnOfNoMatch(const policy::Policy& policy,
                   const policy::Selector& selector,
                   const std::set<cni::Workload>& workloads) {
  std::vector<std::string> texts;
  for (const cni::Workload& workload : workloads) {
    if (policy::Selects(selector, workload)) {
      return;
    }
    texts.push_back(NearTo(workload, selector));
  }
  LogLine("policy '{}': '{}' matches no allocation on this node{}",
          policy.name,
          policy::Text(selector),
          Suggestion(policy::Text(selector), {texts.begin(), texts.end()}));
}

// Returns the workloads of this node that have a namespace, so that a selector may select them.
// Returns none if we are not root.
std::set<cni::Workload> FindWorkloads() {
  std::set<cni::Workload> workloads;
  if (::geteuid() != 0) {
    return workloads;
  }
  state::Host host = state::Host::OpenToLook();
  for (const Attachment& attachment : TakeInventory(host).attachments) {
    workloads.insert(cni::WorkloadOf(attachment.labels));
  }
  std::erase_if(workloads, [](const cni::Workload& each) { return each.nomad_namespace.empty(); });
  return workloads;
}

policy::Policies ReadToCheck(const std::string& directory) {
  try {
    return ReadRemarking(directory);
  } catch (const Error& error) {
    if (error.code() == Code::kInvalidConfig) {
      throw;
    }
    throw CannotTell(error.what());  // the files are unreadable, or are being written
  }
}

int RunPolicyCheck(const Arguments& arguments) {
  const std::string directory = DirectoryOf(arguments);
  const policy::Policies policies = ReadToCheck(directory);
  if (const std::set<cni::Workload> workloads = FindWorkloads(); !workloads.empty()) {
    for (const policy::Policy& policy : policies.policies) {
      for (const policy::Selector& selector : SelectorsOf(policy)) {
        WarnOfNoMatch(policy, selector, workloads);
      }
    }
  }
  Print(Format("{}: ok, {}, {} of them in audit\n",
               directory,
               Counted(policies.policies.size(), "policy"),
               std::ranges::count_if(policies.policies, &policy::Policy::is_audited)));
  return kYes;
}

}  // namespace

const Command kPolicyCheck = {
    .name = "policy check",
    .operands = {"[DIR]", 0, 1},
    .summary = "whether the files of policies are valid",
    .text =
        R"(Reads DIR, or /etc/nomad-bridge/policy.d, as `policy apply` would, and changes
nothing. Needs neither root nor a node. What is wrong is named with file, line
and column, and what is allowed there. Remarks name files that are left out and
addresses that overlap; as root also what matches no allocation on this node,
and what it may have meant. Exit 1: invalid, 2: unreadable.
)",
    .run = RunPolicyCheck};

}  // namespace nomad_bridge::cli
