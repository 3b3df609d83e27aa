// Explains what a rule that a probe has met does to the connection, and gives the command that lets
// the connection pass.
//
// Shapes   The rule's text is as `nft` prints it, if nft is installed.
// Errors   kKernel
#pragma once

#include <string>

#include "base/finding.h"
#include "plugin/causes/connection.h"
#include "plugin/causes/probe.h"

namespace nomad_bridge::causes {

// Returns the cause for `seen`, a rule or the policy of a chain. `does` is what it does: "drops".
// An intended rule gets advice instead of a command: a rule in a chain for the operator's own
// rules, a rule about clients' addresses, and a rule of ours.
[[nodiscard]] Finding CauseOf(NodeFacts& facts,
                              const Connection& connection,
                              const Seen& seen,
                              const std::string& does);

// Returns `cause` for a rule that only some clients meet, such as a ban: it gets no command that
// undoes the rule.
[[nodiscard]] Finding AboutClients(Finding cause);

// Returns "packets for the port", "what it sends to 10.0.0.1:80", "what the port answers" or "the
// answer".
[[nodiscard]] std::string PacketText(const Connection& connection, probe::PacketKind packet);

// Returns "chain forward of table inet mine (policy drop)" or "... (rule with handle 4: tcp dport
// 80 drop)".
[[nodiscard]] std::string RuleText(NodeFacts& facts,
                                   const Connection& connection,
                                   const Seen& seen);

// Returns whether the table is ours.
[[nodiscard]] bool IsOurs(const Seen& seen);

// Returns the policy that refuses the connection; empty if none does.
[[nodiscard]] FindingList FindInPolicies(state::Host& host, const Connection& connection);

// Finds the rule that has dropped or kept the request or the answer; empty if none has. Probes
// again, from another client, to see whether somebody else's rule is about clients.
[[nodiscard]] FindingList ExplainByRule(NodeFacts& facts,
                                        const Connection& connection,
                                        const Trail& trail);

// Finds somebody else's rule on the node that has translated the destination.
[[nodiscard]] FindingList FindRedirect(NodeFacts& facts,
                                       const Connection& connection,
                                       const Trail& trail);

// Finds somebody else's rule that keeps conntrack from tracking: then nothing is translated.
[[nodiscard]] FindingList FindUntracking(NodeFacts& facts,
                                         const Connection& connection,
                                         const Trail& trail);

}  // namespace nomad_bridge::causes
