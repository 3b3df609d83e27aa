// Policies in nf_tables: the chains that judge a new connection, to which those of
// policy_admission.h lead, the sets of allocations that they ask, and what an attachment has in
// both.
//
// Shapes  Everything is in table inet nomad-bridge. Maps in4, in6, out4, out6 lead from an
//         allocation's address to the chain of what reaches it, and of what it sends; in_answers4
//         and so on to the same with source and destination exchanged. A set "sel4-<hash>" holds
//         the addresses of the allocations that a selector selects, "adr4-<hash>" a list of
//         prefixes.
// Kinds   Attachments of one kind are members of the same sets and have the same chains. Chains are
//         made with the first of a kind, and stay until other policies are applied.
// Source  docs/policy.md, docs/rules.md
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "netlink/nft/element.h"
#include "netlink/nft/table.h"
#include "plugin/cni/labels.h"
#include "plugin/policy/program.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// Why the policies in force cannot be read, also if their file is gone and the checkpoint or the
// kernel has some: what they refuse must not be let in. Asks for more where there is no file.
[[nodiscard]] std::optional<Error> FindUnreadPolicies(state::Host& host);
// Throws that.
void RequireReadPolicies(state::Host& host);
// Whether the kernel judges by some.
[[nodiscard]] bool AreInKernel(state::Host& host);

// What `program` makes of `record`: nothing of one without our rules of forwarding.
[[nodiscard]] policy::Judgement JudgementOf(const state::Record& record,
                                            const policy::Program& program);
// `record` with that.
[[nodiscard]] state::Record WithPolicies(state::Record record, const policy::Program& program);

// kTryAgain if `rules`, or the node's own config, asks for policies, and none were applied since
// the node booted; kIo if those in force cannot be read.
void RequirePolicies(const config::RulesConfig& rules,
                     const cni::PluginType& type,
                     state::Host& host);

// By the name of the kind: a workload of it.
using Kinds = std::map<std::string, cni::Workload>;
// Empty if no policy is about it.
[[nodiscard]] std::string KindOf(const policy::Judgement& judgement);
// That of an attachment that has been judged.
void AddKind(const state::Record& record, Kinds& kinds);

// Sets, counters and chains for `kinds`, into `table`. `created` is the comment of new counters.
void AddPolicies(const policy::Program& program,
                 const Kinds& kinds,
                 const std::string& created,
                 nft::Table& table);

// What `workload` needs beside the sets, counters and chains that are there since the policies of
// `program` were put in force: the chains of its kind, and the sets that it is in.
[[nodiscard]] nft::Table TableOfKind(const policy::Program& program, const cni::Workload& workload);

// Of an attachment that has been judged, with `comment`.
[[nodiscard]] std::vector<nft::Element> PolicyElements(const state::Record& record,
                                                       const std::string& comment);
// The chain that judges answers by what `chain` says.
[[nodiscard]] std::string AnswersOf(const std::string& chain);
// The sets that the rules of `chain` ask.
[[nodiscard]] std::vector<std::string> SetsAskedBy(const policy::Chain& chain);
// The lists of prefixes, which all share.
[[nodiscard]] std::vector<nft::Element> ListElements(const policy::Program& program);
// Whether `element` is of such a list.
[[nodiscard]] bool IsInList(const nft::Element& element);

}  // namespace nomad_bridge::rules
