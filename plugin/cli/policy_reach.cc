#include "plugin/cli/policy_reach.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/attachment/apply_policies.h"
#include "plugin/policy/program.h"

namespace nomad_bridge::cli {
namespace {

std::string Names(const std::vector<policy::Policy>& policies) {
  const std::string names = Joined(policies, ", ", [](const policy::Policy& each) {
    return Cat(each.name, each.is_audited ? " (audit)" : "");
  });
  return names.empty() ? "-" : names;
}

}  // namespace

std::string DirectoryOf(const Arguments& arguments) {
  const std::string* const typed =
      arguments.operands.empty() ? arguments.Find("dir") : &arguments.operands.front();
  if (typed != nullptr && !FindStatus(*typed)) {
    throw CannotTell(Format("there is no directory '{}'", *typed));
  }
  return typed != nullptr ? *typed : policy::kPolicyDirectory;
}

policy::Policies ReadRemarking(const std::string& directory) {
  std::vector<std::string> remarks;
  policy::Policies policies = policy::ReadPolicies(directory, remarks);
  for (const std::string& remark : remarks) {
    LogLine("{}", remark);
  }
  return policies;
}

void RemarkOnUnseen(const std::vector<Mismatch>& unseen) {
  for (const Mismatch& mismatch : unseen) {
    LogLine("{}; {}", mismatch.text, FixOf(mismatch).Line());
  }
}

FilesNow CompareFiles(state::Host& host) {
  FilesNow now = {.directory = host.policy.Directory()};
  if (now.directory.empty()) {
    now.directory = policy::kPolicyDirectory;
  }
  try {
    std::vector<std::string> remarks;
    const policy::Program program(policy::ReadPolicies(now.directory, remarks));
    now.differ = program.Revision() != host.policy.Program().Revision();
  } catch (const Error& error) {
    now.text = error.what();
    now.fix = Fix::Advice(Cat("correct them until this says ok: nomad-bridge policy check ",
                              ShellWord(now.directory)));
  }
  const bool differ = now.differ.value_or(false);
  if (differ && !FindStatus(now.directory)) {
    now.text = Format("policies are in force, and {} is gone", now.directory);
    now.fix =
        Fix::Advice(Format("bring it back, or go by {}, without policies if that is gone: "
                           "nomad-bridge policy apply",
                           policy::kPolicyDirectory));
  } else if (differ) {
    now.text = host.policy.IsThere()
                   ? Format("the files in {} differ from the policies in force", now.directory)
                   : Format(
                         "the policies in {} are not in force: none were applied since the node "
                         "booted, or what was is lost",
                         now.directory);
    now.fix = Cat("nomad-bridge policy apply ", ShellWord(now.directory));
  }
  return now;
}

Reach ReachOf(const policy::Program& program, const cni::Workload& workload) {
  return {.in = Names(program.PoliciesAbout(policy::Direction::kTo, workload)),
          .out = Names(program.PoliciesAbout(policy::Direction::kFrom, workload))};
}

}  // namespace nomad_bridge::cli
