// Policies for people: which apply to an allocation, what their rules have counted, and whether the
// files have changed since.
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

// Returns DIR or -dir as typed, or /etc/nomad-bridge/policy.d. Throws CannotTell if the typed
// directory does not exist: a missing directory means no policies, so a typing mistake would take
// all policies away.
[[nodiscard]] std::string DirectoryOf(const Arguments& arguments);

// Reads the policies of a directory; prints remarks on stderr.
[[nodiscard]] policy::Policies ReadRemarking(const std::string& directory);

// The present state of the files that were applied last, or of those in /etc if none were.
struct FilesNow {
  std::string directory;
  std::optional<bool> differ = {};  // from what is in force; nullopt: they are unreadable, or wrong
  std::string text = {};            // the problem; empty if there is none
  Fix fix = {};
};
[[nodiscard]] FilesNow CompareFiles(state::Host& host);

// Prints on stderr what the policies in force do not see (attachment/apply_policies.h), and the
// fix.
void RemarkOnUnseen(const std::vector<Mismatch>& unseen);

// The policies that apply to an allocation: "namespaces, api (audit)"; "-" if none does.
struct Reach {
  std::string in;   // what reaches it
  std::string out;  // what it reaches
};
[[nodiscard]] Reach ReachOf(const policy::Program& program, const cni::Workload& workload);

// Returns "prod/api/web", the address if there are no Nomad labels, "node" or "outside".
[[nodiscard]] std::string Text(const policy::End& end);
// Without Nomad's namespace, no selector selects the end.
[[nodiscard]] bool HasNamespace(const policy::End& end);

// Who has an address on this node: one entry for each address of each living allocation.
struct Holder {
  policy::End end;
  std::uint64_t created = 0;  // by its ADD, in seconds since 1970; 0: not known
};
struct Holders {
  std::vector<Holder> allocations;
  std::set<Ip> of_node;
  std::set<Cidr> subnets;  // of the addresses of allocations
};
[[nodiscard]] Holders FindHolders(state::Host& host, const Inventory& inventory);

// Returns the kernel's counters by name: the comment of each is "since 2026-11-24T06:40:00Z".
[[nodiscard]] std::map<std::string, nft::Counter> ReadCounters(state::Host& host);

// A rule, and its count for all allocations of the node.
struct RuleCount : policy::CounterOf {
  std::uint64_t packets = 0;
  std::string since;  // "2026-11-24T06:40:00Z"

  [[nodiscard]] const char* Mode() const { return is_audited ? "audit" : "enforce"; }
};
// By rule.
[[nodiscard]] std::vector<RuleCount> CountByRule(state::Host& host);
[[nodiscard]] Json RuleJson(const RuleCount& count);

// For one attachment, for `inspect`: returns line by line the policies that judge it, and how often
// they have refused any connection. Empty without policies, or if none judges it.
[[nodiscard]] std::vector<std::string> ShowPolicies(state::Host& host,
                                                    const Attachment& attachment);
[[nodiscard]] Json PoliciesJson(state::Host& host, const Attachment& attachment);

}  // namespace nomad_bridge::cli
