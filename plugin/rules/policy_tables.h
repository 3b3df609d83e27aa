// Policies in nf_tables: chains that judge a new connection, sets of allocations that these chains
// look up, and the elements of an attachment: in these sets, and in the maps that lead to the
// chains. (The chains of policy_admission.h look up the maps.)
//
// Shapes  Everything is in table inet nomad-bridge. Maps in4 and in6 lead from an allocation's
//         address to the chain for packets to the allocation, maps out4 and out6 to the chain for
//         packets from it. Maps in_answers4 and so on lead to the same chains with source and
//         destination exchanged. A set "sel4-<hash>" holds the addresses of the allocations that a
//         selector selects; a set "adr4-<hash>" holds a list of prefixes.
// Kinds   Attachments of one kind are members of the same sets and have the same chains. The first
//         attachment of a kind brings its chains, which stay until other policies are applied.
// Source  docs/policy.md, docs/inside/rules.md
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "firewall/contributor.h"
#include "netlink/nft/element.h"
#include "netlink/nft/table.h"
#include "plugin/cni/labels.h"
#include "plugin/policy/program.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// Returns why the policies in force cannot be read; nullopt if they can, or if there are none. Also
// returns an error if the file is gone, but the kernel still has policies, or a record names some:
// what they refuse must stay refused. Asks the kernel and reads records only if there is no file.
[[nodiscard]] std::optional<Error> FindPolicyReadError(state::Host& host);
// Throws what FindPolicyReadError() returns.
void RequireReadablePolicies(state::Host& host);
// Returns whether the kernel has policies of this boot.
[[nodiscard]] bool KernelHasPolicies(state::Host& host);
// Returns whether the kernel has the policies of the file.
[[nodiscard]] bool ArePoliciesInForce(state::Host& host);

// Returns the interfaces on the host by which the attachment's packets come in.
[[nodiscard]] std::set<std::string> SourceInterfaces(const state::Record& record);
// Returns whether policies can be in force for `record`: it has a link or rules of ours, and the
// node sees its packets come in.
[[nodiscard]] bool IsJudged(const state::Record& record);

// Returns the chains and sets that `program` has for `record`; none if policies cannot be in force
// for it.
[[nodiscard]] policy::Judgement JudgementOf(const state::Record& record,
                                            const policy::Program& program);
// Returns `record` with that judgement.
[[nodiscard]] state::Record WithPolicies(state::Record record, const policy::Program& program);

// Throws kTryAgain if `rules` requires policies and none were applied since the node booted; kIo if
// the policies in force cannot be read.
void RequirePolicies(const config::RulesConfig& rules,
                     const cni::PluginType& type,
                     state::Host& host);

// One workload of each kind, by the kind's name.
using Kinds = std::map<std::string, cni::Workload>;
// Returns the name of the kind; empty if no policy applies.
[[nodiscard]] std::string KindNameOf(const policy::Judgement& judgement);
// Adds the kind of `record`, which has been judged.
void AddKind(const state::Record& record, Kinds& kinds);

// Adds what attachments of `kinds` need: chains, and the sets and counters that these name. What no
// kind needs is not made: a node may have thousands of policies for allocations that are elsewhere.
void AddPolicies(const policy::Program& program, const Kinds& kinds, firewall::Tables& tables);

// Returns what the first attachment of the kind of `record`, which has been judged, adds to the
// tables: chains, sets and counters, without lists of prefixes.
[[nodiscard]] firewall::Tables TablesOfKind(const policy::Program& program,
                                            const state::Record& record);
// Returns the chains of table inet for `workload`.
[[nodiscard]] nft::Table ChainsOfKind(const policy::Program& program,
                                      const cni::Workload& workload);

// "sel4-1f2e": the set of that name that was made for policies.
[[nodiscard]] std::string SetFor(std::string_view noun, Family family, std::string_view name);

// Adds `set` unless `table` has it.
void AddSetOnce(nft::Set set, nft::Table& table);

// Returns the elements of `record`, which has been judged, each with `comment`.
[[nodiscard]] std::vector<nft::Element> PolicyElements(const state::Record& record,
                                                       const std::string& comment);
// Returns the elements of the lists of prefixes in `tables`, which all attachments share.
[[nodiscard]] std::vector<nft::Element> ListElements(const policy::Program& program,
                                                     const firewall::Tables& tables);

}  // namespace nomad_bridge::rules
