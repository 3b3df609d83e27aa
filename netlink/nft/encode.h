// Our plain nf_tables values as libnftnl's objects, and back. Private to netlink/.
//
// Ownership  What Encode() returns is the caller's.
// Source     libnftnl 1.2; the user data (comments, byte orders) is laid out as nft does: type,
//            length, value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "netlink/core/handles.h"
#include "netlink/nft/element.h"
#include "netlink/nft/rule.h"
#include "netlink/nft/socket.h"
#include "netlink/nft/table.h"

namespace nomad_bridge::nft {

[[nodiscard]] netlink::NftnlTable Encode(const TableId& table);
// `id` tells sets that are made in one batch apart.
[[nodiscard]] netlink::NftnlSet Encode(const TableId& table, const Set& set, std::uint32_t id);
[[nodiscard]] netlink::NftnlChain Encode(const TableId& table, const Chain& chain);
[[nodiscard]] netlink::NftnlRule Encode(const TableId& table,
                                        const std::string& chain,
                                        const Rule& rule);
// A set that holds the element: libnftnl knows elements only so.
[[nodiscard]] netlink::NftnlSet Encode(const TableId& table, const Element& element);

[[nodiscard]] Set DecodeSet(const nftnl_set& set);
[[nodiscard]] Chain DecodeChain(const nftnl_chain& chain);
[[nodiscard]] std::vector<Element> DecodeElements(const nftnl_set& set);
[[nodiscard]] KernelRule DecodeRule(const nftnl_rule& rule);

}  // namespace nomad_bridge::nft
