// Policies as people see them: which are about an allocation, what their rules have counted, and
// whether the files are other ones by now.
//
// Errors  kKernel; kIo if the policies in force cannot be read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/fix.h"
#include "base/mismatch.h"
#include "netlink/nft/table.h"
#include "plugin/cli/attachment_view.h"
#include "plugin/cli/command.h"
#include "plugin/cli/inventory.h"
#include "plugin/policy/judge.h"
#include "plugin/policy/program.h"
#include "plugin/state/host.h"

namespace nomad_bridge::cli {

// DIR or -dir as typed, or /etc/nomad-bridge/policy.d. Throws CannotTell if what was typed is not
// there: no directory is no policies, and a mistyped one would take all of them away.
[[nodiscard]] std::string DirectoryOf(const Arguments& arguments);

// Those of a directory; remarks are on stderr.
[[nodiscard]] policy::Policies ReadRemarking(const std::string& directory);

// The files that were applied last, or those of /etc if none were, as they are now.
struct FilesNow {
  std::string directory;
  std::optional<bool> differ = {};  // from what is in force; nullopt: they are unreadable, or wrong
  std::string text = {};            // what is the matter; empty if nothing is
  Fix fix = {};
};
[[nodiscard]] FilesNow CompareFiles(state::Host& host);

// What the policies in force do not see (attachment/apply_policies.h), and what to type against
// it, on stderr.
void RemarkOnUnseen(const std::vector<Mismatch>& unseen);

// The policies that count for an allocation: "namespaces, api (audit)"; "-" if none is about it.
struct Reach {
  std::string in;   // what reaches it
  std::string out;  // what it reaches
};
[[nodiscard]] Reach ReachOf(const policy::Program& program, const cni::Workload& workload);

// "prod/api/web", the address of who has no labels of Nomad's, "node" or "outside".
[[nodiscard]] std::string Text(const policy::End& end);
// Nomad's; without one no selector selects it.
[[nodiscard]] bool HasNamespace(const policy::End& end);

// Who has an address on this node: one entry for each address of each living allocation.
struct Holder {
  policy::End end;
  std::uint64_t created = 0;  // by its ADD, in seconds since 1970; 0: not known
};
struct Holders {
  std::vector<Holder> allocations;
  std::set<Ip> of_node;
  std::set<Cidr> subnets;  // that allocations have their addresses from
};
[[nodiscard]] Holders FindHolders(state::Host& host, const Inventory& inventory);

// By name, as the kernel has them: the comment of each is "since 2026-11-24T06:40:00Z".
[[nodiscard]] std::map<std::string, nft::Counter> ReadCounters(state::Host& host);

// A rule, and what it has counted of all allocations of the node.
struct RuleCount : policy::CounterOf {
  std::uint64_t packets = 0;
  std::string since;  // "2026-11-24T06:40:00Z"

  [[nodiscard]] const char* Mode() const { return is_audited ? "audit" : "enforce"; }
};
// By rule.
[[nodiscard]] std::vector<RuleCount> CountByRule(state::Host& host);
[[nodiscard]] Json RuleJson(const RuleCount& count);

// Of one attachment, for `inspect`: the policies that judge it, and what they have refused, of
// whomever, line by line. Nothing without policies, or if it is judged by none.
[[nodiscard]] std::vector<std::string> ShowPolicies(state::Host& host,
                                                    const Attachment& attachment);
[[nodiscard]] Json PoliciesJson(state::Host& host, const Attachment& attachment);

}  // namespace nomad_bridge::cli
