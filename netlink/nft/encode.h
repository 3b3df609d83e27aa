// Our plain nf_tables values as libnftnl's objects; encode.cc also has EncodeBatch(). Private to netlink/.
//
// Shapes     The user data (comments, byte orders) is laid out as nft does: type, length, value.
// Ownership  What is returned is the caller's.
// Source     libnftnl 1.2; linux/netfilter/nfnetlink.h (batches).
#pragma once

#include <cstdint>
#include <string>

#include "netlink/core/handles.h"
#include "netlink/nft/element.h"
#include "netlink/nft/rule.h"
#include "netlink/nft/table.h"

namespace nomad_bridge::nft {

// nft packs the types of a concatenation so.
constexpr std::uint32_t kTypeBits = 6;

[[nodiscard]] netlink::NftnlTable Encode(const TableId& table);
// Only named, to ask for it; every set of the table if `set` is empty.
[[nodiscard]] netlink::NftnlSet Encode(const TableId& table, const std::string& set);
// `id` distinguishes sets that are created in one batch.
[[nodiscard]] netlink::NftnlSet Encode(const TableId& table, const Set& set, std::uint32_t id);
[[nodiscard]] netlink::NftnlChain Encode(const TableId& table, const Chain& chain);
[[nodiscard]] netlink::NftnlRule Encode(const TableId& table,
                                        const std::string& chain,
                                        const Rule& rule);
// A set that holds the element, which is how libnftnl sends one.
[[nodiscard]] netlink::NftnlSet Encode(const TableId& table, const Element& element);

}  // namespace nomad_bridge::nft
