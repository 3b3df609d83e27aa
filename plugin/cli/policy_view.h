// Shows policies: which policies apply to an allocation, what their rules have counted, and whether
// the files have changed since.
//
// Errors  kKernel; kIo if the policies in force cannot be read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/finding.h"
#include "base/fix.h"
#include "netlink/nft/table.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/command.h"
#include "plugin/cli/inventory.h"
#include "plugin/policy/judge.h"
#include "plugin/policy/program.h"
#include "plugin/rules/in_force.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {

// Returns DIR or -dir as typed, or /etc/nomad-bridge/policy.d. Throws CannotTell if the typed
// directory does not exist: a missing directory means no policies, so a typing mistake would take
// all policies away.
[[nodiscard]] std::string DirectoryOf(const Arguments& arguments);

// Reads the policies of a directory; prints remarks on stderr.
[[nodiscard]] policy::Policies ReadRemarking(const std::string& directory);

// The present state of the files that were applied last; if none were applied, of the files in the
// default directory.
struct FilesNow {
  std::string directory;
  std::optional<bool> differ = {};  // from the policies in force; nullopt: unreadable or invalid
  std::string text = {};            // the problem; empty if there is none
  Fix fix = {};
};
[[nodiscard]] FilesNow CompareFiles(state::Host& host);

// Prints on stderr which traffic the policies in force do not see (attachment/apply_policies.h),
// and the fix.
void RemarkOnUnseen(const FindingList& unseen);

// Returns the policies in force about connections to an allocation, and from it: "namespaces, api
// (audit)"; "-" if there are none; "unknown" if `now`, what is in force, is not of `program`.
[[nodiscard]] Json ReachJson(const policy::Program& program,
                             const cni::Workload& workload,
                             const policy::Judgement& now);

// Returns "prod/api/web", the address if there are no Nomad labels, "node" or "outside".
[[nodiscard]] std::string Text(const policy::End& end);
// Returns whether the end has Nomad's namespace; without it, no selector selects the end.
[[nodiscard]] bool HasNamespace(const policy::End& end);

// An address of a living allocation on this node.
struct Holder {
  policy::End end;
  std::uint64_t created = 0;  // when its ADD ran, in seconds since 1970; 0: unknown
};
struct Holders {
  std::vector<Holder> allocations;
  std::set<Ip> of_node;
  std::set<Cidr> subnets;  // of all allocations' addresses, also of dead ones
};
[[nodiscard]] Holders FindHolders(state::Host& host, const Inventory& inventory);

// Returns what is in force for an attachment, as for its first address.
[[nodiscard]] policy::InForce NowOf(const rules::InForce& in_force, const Attachment& attachment);

// Returns the kernel's counters by name. A counter's comment is "since 2026-11-24T06:40:00Z".
[[nodiscard]] std::map<std::string, nft::Counter> ReadCounters(state::Host& host);

// A rule, and its count for all allocations of the node.
struct RuleCount : policy::CounterOf {
  std::uint64_t packets = 0;
  std::string since;  // "2026-11-24T06:40:00Z"; empty: no allocation here needs the rule
};
// Returns the count of each rule, sorted by rule.
[[nodiscard]] std::vector<RuleCount> CountByRule(state::Host& host);
[[nodiscard]] Json RuleJson(const RuleCount& count);

// For `inspect`: returns the policies that apply to the attachment, and how many connections their
// rules have refused, of any allocation; null without policies.
[[nodiscard]] Json PoliciesJson(state::Host& host, const Attachment& attachment);
// Returns lines with the values of PoliciesJson(); empty if no policy applies.
[[nodiscard]] std::vector<std::string> ShowPolicies(const Json& policies);

}  // namespace nomad_bridge::cli
