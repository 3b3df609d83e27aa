#include <array>
#include <exception>

#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "plugin/attachment/apply_policies.h"
#include "plugin/cli/doctor.h"
#include "plugin/cli/nomad_config.h"
#include "plugin/cli/policy_view.h"
#include "plugin/config/node_config.h"
#include "plugin/policy/policy.h"
#include "plugin/rules/policy_tables.h"

namespace nomad_bridge::cli {
namespace {

constexpr const char* kApplyFix = "nomad-bridge policy apply";

// Returns whether policies are required. Skips conflists that cannot be read; other checks report
// them.
bool IsRequired(Examination& node) {
  bool is_required = config::ReadNodeConfig().policy_required;
  for (const ConfigFile& file : node.Configs()) {
    for (const cni::PluginConfig& plugin : file.plugins) {
      try {
        const std::optional<config::Config> config = FindConfig(plugin);
        is_required |= config && config->rules.policy_required;
      } catch (const std::exception&) {
        continue;
      }
    }
  }
  return is_required;
}

// Returns whether an apply of the default directory would satisfy `policy.required`. Returns true
// for files with mistakes, which another check reports.
bool HasFiles() {
  try {
    std::vector<std::string> remarks;
    return policy::ReadPolicies(policy::kPolicyDirectory, remarks).are_named;
  } catch (const Error&) {
    return true;
  }
}

void CheckInForce(Examination& node) {
  if (const std::optional<Error> unread = rules::FindPolicyReadError(node.host)) {
    if (::geteuid() != 0) {
      throw Error(*unread);
    }
    return node.Fail(Cat(unread->what(), "; ADDs are refused"),
                     unread->fix() != Fix() ? unread->fix() : state::PolicyFile::Damaged("").fix());
  }
  if (!node.host.policy.AreApplied()) {
    if (IsRequired(node)) {
      node.Fail(
          "policies are required, and none were applied since the node booted: ADDs are "
          "refused",
          HasFiles()
              ? Fix(kApplyFix)
              : Fix::Advice(Format("put a file with policies, or with \"policies\": [], into "
                                   "{}, then: {}",
                                   policy::kPolicyDirectory,
                                   kApplyFix)));
    }
    return;
  }
  if (!node.running.empty() && !rules::ArePoliciesInForce(node.host)) {
    node.Fail("the policies in the kernel are not those that were applied last",
              "nomad-bridge reconcile");
  }
}

void CheckFiles(Examination& node) {
  const FilesNow files = CompareFiles(node.host);
  if (!files.differ) {
    node.Fail(files.text, files.fix);
  } else if (*files.differ) {
    node.Warn(files.text, files.fix);
  }
}

void CheckTraffic(Examination& node) {
  node.AddAll(attachment::FindUnseenTraffic(node.host));
}

constexpr std::array kPolicyTable = {
    Check{"policy.in_force", CheckInForce},
    Check{"policy.files", CheckFiles},
    Check{"policy.traffic", CheckTraffic},
};

}  // namespace

const std::span<const Check> kPolicyChecks = kPolicyTable;

}  // namespace nomad_bridge::cli
