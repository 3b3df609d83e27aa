// What the rules of the policies in force have counted, of all allocations of the node.
//
// Errors  kKernel; kIo if the policies in force cannot be read.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "netlink/nft/table.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/policy/program.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {

// By name, as the kernel has them: the comment of each is "since 2026-11-24T06:40:00Z".
[[nodiscard]] std::map<std::string, nft::Counter> ReadCounters(state::Host& host);

// Of one policy.
struct RuleCounts {
  std::string policy;
  std::string mode;
  std::array<std::optional<nft::Counter>, 3> counters;  // in the order of CounterOf::What

  [[nodiscard]] const std::optional<nft::Counter>& Of(policy::CounterOf::What what) const {
    return counters.at(static_cast<std::size_t>(what));
  }
  // "2026-11-24T06:40:00Z", of the counter that began last.
  [[nodiscard]] std::string Since() const;
};

// By rule: "api#0", or "api" for what the policy leaves closed.
[[nodiscard]] std::map<std::string, RuleCounts> CountsByRule(state::Host& host);

[[nodiscard]] Json RuleJson(const std::pair<const std::string, RuleCounts>& named);

// Of one attachment, for `inspect`: the policies that judge it, and what they have refused, of
// whomever, line by line. Nothing without policies, or if it is judged by none.
[[nodiscard]] std::vector<std::string> ShowPolicies(state::Host& host,
                                                    const Attachment& attachment);
[[nodiscard]] Json PoliciesJson(state::Host& host, const Attachment& attachment);

}  // namespace nomad_bridge::cli
