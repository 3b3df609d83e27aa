// Finds base chains of other programs that drop what we accept. For iptables there are the static
// rules (firewall/static_rules.h), for firewalld its zones. Any other chain must be changed by its
// owner, so we report it.
//
// Shapes  A chain at the forward hook that belongs neither to iptables nor to firewalld, and that
//         drops everything, as its structure shows: by its policy, or by a rule that all new
//         connections reach. To fix a chain after ours, its owner adds a rule that accepts our
//         mark. In a chain before ours, the rule must accept the bridges, because packets have no
//         mark yet.
// Limits  Leaves out a chain with a word about us before the drop: a rule that accepts or returns,
//         and names one of our bridges, a mark or any address. The same holds for a rule whose test
//         is unclear: a set of wildcards, a concatenation, a rate, an extension of iptables, a
//         queue. Also leaves out a chain that accepts new connections from other links and to other
//         links. A rule for ports, or for other states or protocols than a new TCP connection has,
//         is no word about us. Does not see the rules of iptables-legacy.
// Costs   One dump of all chains; for each chain in question, one of the rules of its table; one of
//         each set of links, states or protocols that a rule there looks up.
// Errors  kKernel and kTryAgain from reading.
// Source  nft --debug=netlink shows the expressions of a rule.
#pragma once

#include <string>

#include "base/finding.h"
#include "netlink/nft/socket.h"

namespace nomad_bridge::firewall {

// Returns the beginning of a command that inserts a rule: "nft insert rule inet mine forward ".
[[nodiscard]] std::string InsertRule(const nft::TableId& table, const std::string& chain);

// Returns the command that makes `chain`, which comes after ours, accept what we accept.
[[nodiscard]] std::string AcceptMarkCommand(const nft::TableId& table,
                                            const std::string& chain,
                                            int accept_mark_bit);

// "chain forward of table inet mine (policy drop) comes after ours and drops"
[[nodiscard]] FindingList FindForeignDrops(nft::Socket& socket, int accept_mark_bit);

}  // namespace nomad_bridge::firewall
