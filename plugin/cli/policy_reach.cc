#include "plugin/cli/policy_reach.h"

#include "base/log.h"
#include "base/text.h"

namespace nomad_bridge::cli {
namespace {

std::string NamesFor(const policy::Policies& policies,
                     policy::Direction direction,
                     const cni::Workload& workload) {
  std::string names;
  for (const policy::Policy& each : policies.policies) {
    if (each.direction == direction && policy::Selects(each.selector, workload)) {
      names += Cat(names.empty() ? "" : ", ",
                   each.name,
                   each.mode == policy::Mode::kAudit ? " (audit)" : "");
    }
  }
  return names.empty() ? "-" : names;
}

}  // namespace

policy::Policies ReadRemarking(const std::string& directory) {
  std::vector<std::string> remarks;
  policy::Policies policies = policy::ReadPolicies(directory, remarks);
  for (const std::string& remark : remarks) {
    LogLine("{}", remark);
  }
  return policies;
}

Reach ReachOf(const policy::Policies& policies, const cni::Workload& workload) {
  return {.in = NamesFor(policies, policy::Direction::kTo, workload),
          .out = NamesFor(policies, policy::Direction::kFrom, workload)};
}

}  // namespace nomad_bridge::cli
