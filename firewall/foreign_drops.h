// Base chains of other programs that drop what we accept. For those of iptables there are the
// static rules (firewall/static_rules.h), for firewalld's its zones; any other must be changed by
// its owner, so it has to be named.
//
// Shapes  A chain at the forward hook that is neither iptables' nor firewalld's, and that drops or
//         rejects by its policy, or by a rule for all packets, of its own or of a chain that it
//         jumps or goes to. What may also stand in such a rule: counters, log, what sets a mark.
//         Opened, and not named, if before that:
//           a chain after ours    accepts our mark
//           a chain before ours   accepts by a bridge of our networks, or by a set of interfaces,
//                                 which is not looked into: there is no mark yet
// Costs   One dump of all chains, and one of the rules of each chain in question.
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

[[nodiscard]] std::vector<ForeignDrop> FindForeignDrops(nft::Socket& socket, int accept_mark_bit);

}  // namespace nomad_bridge::firewall
