// Converts our plain nf_tables values to libnftnl's objects (encode.cc, which also has
// EncodeBatch()), and the kernel's messages to our plain values (decode.cc). Private to netlink/.
//
// Shapes     The user data (comments, byte orders) is laid out as nft does: type, length, value.
// Ownership  The caller owns what these functions return.
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

// nft uses this many bits for each type of a concatenation.
constexpr std::uint32_t kTypeBits = 6;

[[nodiscard]] netlink::NftnlTable Encode(const TableId& table);
// Returns an object that only names the set, for a request. An empty `set` names every set of the
// table.
[[nodiscard]] netlink::NftnlSet Encode(const TableId& table, const std::string& set);
// `id` distinguishes sets that are created in one batch.
[[nodiscard]] netlink::NftnlSet Encode(const TableId& table, const Set& set, std::uint32_t id);
[[nodiscard]] netlink::NftnlChain Encode(const TableId& table, const Chain& chain);
[[nodiscard]] netlink::NftnlRule Encode(const TableId& table,
                                        const std::string& chain,
                                        const Rule& rule);
// Returns a set that contains the element: libnftnl sends elements only inside a set.
[[nodiscard]] netlink::NftnlSet Encode(const TableId& table, const Element& element);

// A counter without a name stands for all counters of the table, in a request.
[[nodiscard]] netlink::NftnlObject Encode(const TableId& table, const Counter& counter);

// Returns the bytes of an attribute; none if it is absent. `Get` is an nftnl_..._get() function,
// which also returns the length.
template <auto Get, typename Object>
[[nodiscard]] std::span<const std::uint8_t> BytesOf(Object& object, int attribute) {
  std::uint32_t size = 0;
  const void* const bytes = Get(&object, static_cast<std::uint16_t>(attribute), &size);
  return {static_cast<const std::uint8_t*>(bytes), bytes == nullptr ? 0 : size};
}

// Read one message, which has at most one object, or any number of elements. Return nothing for a
// message of another kind, or if libnftnl does not understand the message; ReadRule() then returns
// the part that it could read, and adds the expression "[ unknown ]".
[[nodiscard]] std::vector<KernelTable> ReadTable(const nlmsghdr& message);
[[nodiscard]] std::vector<Set> ReadSet(const nlmsghdr& message);
[[nodiscard]] std::vector<Socket::TableChain> ReadChain(const nlmsghdr& message);
[[nodiscard]] std::vector<Element> ReadElements(const nlmsghdr& message);
[[nodiscard]] std::vector<Socket::Noted> ReadNoted(const nlmsghdr& message);
[[nodiscard]] std::vector<KernelRule> ReadRule(const nlmsghdr& message);
[[nodiscard]] std::vector<Counter> ReadCounter(const nlmsghdr& message);

}  // namespace nomad_bridge::nft
