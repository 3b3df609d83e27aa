// Our plain nf_tables values as libnftnl's objects (encode.cc, which also has EncodeBatch()), and
// what nf_tables sends as our plain values (decode.cc). Private to netlink/.
//
// Shapes     The user data (comments, byte orders) is laid out as nft does: type, length, value.
// Ownership  What is returned is the caller's.
// Source     libnftnl 1.2; linux/netfilter/nfnetlink.h (batches).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "netlink/core/handles.h"
#include "netlink/nft/element.h"
#include "netlink/nft/rule.h"
#include "netlink/nft/socket.h"
#include "netlink/nft/table.h"

namespace nomad_bridge::nft {

// nft uses as many bits for each type of a concatenation.
constexpr std::uint32_t kTypeBits = 6;

[[nodiscard]] netlink::NftnlTable Encode(const TableId& table);
// Only names the set, for a request; every set of the table if `set` is empty.
[[nodiscard]] netlink::NftnlSet Encode(const TableId& table, const std::string& set);
// `id` distinguishes sets that are created in one batch.
[[nodiscard]] netlink::NftnlSet Encode(const TableId& table, const Set& set, std::uint32_t id);
[[nodiscard]] netlink::NftnlChain Encode(const TableId& table, const Chain& chain);
[[nodiscard]] netlink::NftnlRule Encode(const TableId& table,
                                        const std::string& chain,
                                        const Rule& rule);
// A set with the element in it: libnftnl sends an element this way.
[[nodiscard]] netlink::NftnlSet Encode(const TableId& table, const Element& element);

// Without a name: all counters of the table, for a request.
[[nodiscard]] netlink::NftnlObject Encode(const TableId& table, const Counter& counter);

// Returns an attribute; nothing if it is absent. `Get` is nftnl_..._get(), which knows the length.
template <auto Get, typename Object>
[[nodiscard]] std::span<const std::uint8_t> BytesOf(Object& object, int attribute) {
  std::uint32_t size = 0;
  const void* const bytes = Get(&object, static_cast<std::uint16_t>(attribute), &size);
  return {static_cast<const std::uint8_t*>(bytes), bytes == nullptr ? 0 : size};
}

// Returns the expressions of `rule`, which owns them.
[[nodiscard]] std::vector<const nftnl_expr*> ExpressionsOf(const nftnl_rule& rule);

// Read what one message holds: at most one object, or any number of elements. A message of another
// kind, or one that libnftnl does not understand, holds nothing; ReadRule() adds "[ unknown ]" to
// what it could read.
[[nodiscard]] std::vector<KernelTable> ReadTable(const nlmsghdr& message);
[[nodiscard]] std::vector<Set> ReadSet(const nlmsghdr& message);
[[nodiscard]] std::vector<Socket::TableChain> ReadChain(const nlmsghdr& message);
[[nodiscard]] std::vector<Element> ReadElements(const nlmsghdr& message);
[[nodiscard]] std::vector<Socket::Noted> ReadNoted(const nlmsghdr& message);
[[nodiscard]] std::vector<KernelRule> ReadRule(const nlmsghdr& message);
[[nodiscard]] std::vector<Counter> ReadCounter(const nlmsghdr& message);

}  // namespace nomad_bridge::nft
