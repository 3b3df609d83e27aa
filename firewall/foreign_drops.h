// Base chains of others that drop what we accept: an accept is final only for its own chain, and a
// later one may still drop. For those of iptables there are the static rules; for any other only
// its owner can do something, so it has to be named.
#pragma once

#include <string>
#include <vector>

#include "netlink/nft/socket.h"

namespace nomad_bridge::firewall {

// "chain forward of table inet mine (policy drop)": every chain at the forward hook that comes
// later than ours, is not iptables', and drops or rejects by policy or by its last rule.
[[nodiscard]] std::vector<std::string> ForeignDrops(nft::Socket& socket);

}  // namespace nomad_bridge::firewall
