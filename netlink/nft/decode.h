// What nf_tables sends, as our plain values. Private to netlink/.
//
// Shapes  What one message holds: at most one, but of elements any number.
// Errors  A message of another kind, or one that libnftnl does not understand, holds nothing;
//         ReadRule() adds "[ unknown ]" to what it could read.
// Source  libnftnl 1.2; linux/netfilter/nf_tables.h.
#pragma once

#include <vector>

#include "netlink/nft/element.h"
#include "netlink/nft/socket.h"
#include "netlink/nft/table.h"

struct nlmsghdr;

namespace nomad_bridge::nft {

[[nodiscard]] std::vector<KernelTable> ReadTable(const nlmsghdr& message);
[[nodiscard]] std::vector<Set> ReadSet(const nlmsghdr& message);
[[nodiscard]] std::vector<Socket::TableChain> ReadChain(const nlmsghdr& message);
[[nodiscard]] std::vector<Element> ReadElements(const nlmsghdr& message);
[[nodiscard]] std::vector<KernelRule> ReadRule(const nlmsghdr& message);

}  // namespace nomad_bridge::nft
