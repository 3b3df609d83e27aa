// Base chains of other programs that drop what we accept: an accept is final only for its own chain,
// and a later one may still drop. For those of iptables there are the static rules, for firewalld's
// its zones; any other must be changed by its owner, so it has to be named.
//
// Costs   One dump of all chains, and one of the rules of each chain in question.
// Errors  kKernel.
#pragma once

#include <string>
#include <vector>

#include "netlink/nft/socket.h"

namespace nomad_bridge::firewall {

// "chain forward of table inet mine (policy drop)": every chain at the forward hook that comes
// later than ours, is neither iptables' nor firewalld's, and drops or rejects by its policy or its
// last rule, unless a rule of it accepts our mark.
[[nodiscard]] std::vector<std::string> ForeignDrops(nft::Socket& socket, int accept_mark_bit);

}  // namespace nomad_bridge::firewall
