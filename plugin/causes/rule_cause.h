// Explains what a rule that a probe has met does to the connection, and gives the command that lets
// the connection pass.
//
// Shapes   The rule's text is as `nft` prints it, if nft is installed.
// Errors   kKernel
#pragma once

#include <string>

#include "plugin/causes/cause.h"
#include "plugin/causes/probe.h"

namespace nomad_bridge::causes {

// `seen`: a rule, or a chain's policy; `does`: "drops". An intended rule gets advice instead of a
// command: a rule in a chain for the operator's own, a rule about clients' addresses, and ours.
[[nodiscard]] Cause CauseOf(NodeFacts& facts,
                            const Connection& connection,
                            const Seen& seen,
                            const std::string& does);

// Returns `cause` for a rule that only some clients meet: a ban, which no command undoes.
[[nodiscard]] Cause AboutClients(Cause cause);

// "packets for the port", "what it sends to 10.0.0.1:80"; "what the port answers", "the answer"
[[nodiscard]] std::string PacketText(const Connection& connection, probe::PacketKind packet);

// "chain forward of table inet mine (policy drop)"; "... (rule with handle 4: tcp dport 80 drop)"
[[nodiscard]] std::string RuleText(NodeFacts& facts,
                                   const Connection& connection,
                                   const Seen& seen);

// Whether the table is one of ours.
[[nodiscard]] bool IsOurs(const Seen& seen);

}  // namespace nomad_bridge::causes
