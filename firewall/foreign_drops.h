// Base chains of other programs that drop what we accept. For those of iptables there are the
// static rules (firewall/static_rules.h), for firewalld's its zones; any other must be changed by
// its owner, so it has to be named.
//
// Shapes  A chain at the forward hook that is neither iptables' nor firewalld's, and that drops or
//         rejects, by its policy or by a rule, whatever comes newly to or from a bridge of our
//         networks. A chain after ours may accept our mark before that; a chain before ours the
//         bridge: there is no mark yet.
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

// The command that lets what we accept pass `chain`, which comes after ours.
[[nodiscard]] std::string AcceptMarkCommand(const nft::TableId& table,
                                            const std::string& chain,
                                            int accept_mark_bit);

[[nodiscard]] std::vector<ForeignDrop> FindForeignDrops(nft::Socket& socket, int accept_mark_bit);

}  // namespace nomad_bridge::firewall
