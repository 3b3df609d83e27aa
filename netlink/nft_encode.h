// Our plain nf_tables values as libnftnl's objects, and back. Private to netlink/.
//
// Ownership  What Encode() returns is the caller's.
// Source     libnftnl 1.2; the user data (comments, byte orders) is laid out as nft does: type,
//            length, value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "netlink/handles.h"
#include "netlink/nft_element.h"
#include "netlink/nft_rule.h"
#include "netlink/nft_socket.h"
#include "netlink/nft_table.h"

namespace nomad_bridge {

[[nodiscard]] NftnlTable Encode(const NftTableId& table);
// `id` tells sets that are made in one batch apart.
[[nodiscard]] NftnlSet Encode(const NftTableId& table, const NftSet& set, std::uint32_t id);
[[nodiscard]] NftnlChain Encode(const NftTableId& table, const NftChain& chain);
[[nodiscard]] NftnlRule Encode(const NftTableId& table,
                               const std::string& chain,
                               const NftRule& rule);
// A set that holds the element: libnftnl knows elements only so.
[[nodiscard]] NftnlSet Encode(const NftTableId& table, const NftElement& element);

[[nodiscard]] NftSet DecodeSet(const nftnl_set& set);
[[nodiscard]] NftChain DecodeChain(const nftnl_chain& chain);
[[nodiscard]] std::vector<NftElement> DecodeElements(const nftnl_set& set);
[[nodiscard]] NftKernelRule DecodeRule(const nftnl_rule& rule);

}  // namespace nomad_bridge
