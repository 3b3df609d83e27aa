// Messages of nf_tables as bytes: making them, and taking apart what comes back. Private to
// netlink/.
//
// Shapes  Bytes hold whole netlink messages, one behind the other, aligned to 4 bytes.
// Source  linux/netlink.h, linux/netfilter/nfnetlink.h, linux/netfilter/nf_tables.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "netlink/nft/batch.h"
#include "netlink/nft/table.h"

struct nlattr;
struct nlmsghdr;

namespace nomad_bridge::nft::wire {

// Enough for one message of ours: a rule of nine expressions takes 600 bytes.
constexpr std::size_t kMaxMessageBytes = 16384;

using Bytes = std::vector<char>;
using Scratch = std::array<char, kMaxMessageBytes>;

// The header of a message in `scratch`, to be filled further with libnftnl.
[[nodiscard]] nlmsghdr* Start(Scratch& scratch,
                              int type,
                              TableFamily family,
                              int flags,
                              std::uint32_t sequence);

void Append(Bytes& bytes, const nlmsghdr& message);

// Pointers into `bytes`, which must outlive them: never pass a temporary.
[[nodiscard]] std::vector<const nlmsghdr*> Split(const Bytes& bytes);

// The errno an NLMSG_ERROR or NLMSG_DONE carries; 0 for an acknowledgement.
[[nodiscard]] int ErrorOf(const nlmsghdr& message);
// The kernel's own words, if it sent any, and the errno's.
[[nodiscard]] std::string DetailsOf(const nlmsghdr& message);

// The first attribute of `type` behind a header of `header_bytes`; nullptr if there is none.
[[nodiscard]] const nlattr* FindAttribute(const nlmsghdr& message,
                                          std::size_t header_bytes,
                                          std::uint16_t type);

// Begin, tied to `generation`, under the number `sequence`; the messages, numbered from `sequence`
// + 1; end.
[[nodiscard]] Bytes EncodeBatch(const Batch& batch,
                                std::uint32_t generation,
                                std::uint32_t sequence);

}  // namespace nomad_bridge::nft::wire
