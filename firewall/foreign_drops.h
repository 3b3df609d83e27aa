// Finds base chains of other programs that drop what we accept. For iptables there are the static
// rules (firewall/static_rules.h), for firewalld its zones. Any other chain must be changed by its
// owner, so we report it.
//
// Shapes  A chain at the forward hook that belongs neither to iptables nor to firewalld, and that
//         drops or rejects every new connection to or from a bridge of our networks, by its policy
//         or by a rule. To fix a chain after ours, its owner adds a rule that accepts our mark. In
//         a chain before ours, the rule must accept the bridge, because packets have no mark yet.
// Costs   One dump of all chains, and one of the rules of each table in question.
// Errors  kKernel from reading.
#pragma once

#include <string>
#include <vector>

#include "netlink/nft/socket.h"

namespace nomad_bridge::firewall {

struct ForeignDrop {
  // "chain forward of table inet mine (policy drop) comes after ours and drops"
  std::string what;
  std::string fix;
};

// Returns the command that makes `chain`, which comes after ours, accept what we accept.
[[nodiscard]] std::string AcceptMarkCommand(const nft::TableId& table,
                                            const std::string& chain,
                                            int accept_mark_bit);

[[nodiscard]] std::vector<ForeignDrop> FindForeignDrops(nft::Socket& socket, int accept_mark_bit);

}  // namespace nomad_bridge::firewall
