// One element of an nf_tables set or map, and its owner.
//
// Shapes  key and data are the kernel's bytes: every field of a concatenation padded to 4 bytes,
//         network byte order (an interface name: 16 bytes, zero filled). data is empty for sets,
//         and for verdict maps, whose elements have a verdict instead. An interval consists of two
//         elements: its first key, and the key after its last key. In a set of concatenations, it
//         is one element with its first and its last key.
// Owner   An attachment's elements have a comment that begins with the owner's name and a space.
//         The owner's name is the name of the host veth ("veth3f2a91c04d7 alloc=..."). An element
//         without a comment is shared by all.
// Source  linux/netfilter/nf_tables.h; nft(8): a comment is at most 128 bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nomad_bridge::nft {

constexpr std::size_t kMaxCommentBytes = 128;

// NFPROTO_*
enum class TableFamily : std::uint8_t {
  kAny = 0,
  kInet = 1,
  kIp = 2,
  kArp = 3,
  kNetdev = 5,
  kBridge = 7,
  kIp6 = 10
};

// What happens to a packet. NF_*, NFT_*
struct Verdict {
  enum class Code : std::int32_t {
    kDrop = 0,
    kAccept = 1,
    kStolen = 2,  // the kernel keeps it
    kQueue = 3,   // a program decides
    kJump = -3,
    kGoto = -4,
    kReturn = -5
  };

  Code code = Code::kAccept;
  std::string chain;  // of kJump and kGoto

  bool operator==(const Verdict&) const = default;
};

struct Element {
  std::string set;
  std::vector<std::uint8_t> key;
  std::vector<std::uint8_t> data;
  std::optional<Verdict> verdict;
  std::string comment;
  TableFamily family = TableFamily::kInet;  // of its set's table
  bool ends_interval = false;               // the key is the first one after the interval
  std::vector<std::uint8_t> last_key = {};  // of an interval of concatenations; else empty

  // The comment's first word; empty for a shared element.
  [[nodiscard]] std::string_view owner() const {
    return std::string_view(comment).substr(0, comment.find(' '));
  }

  bool operator==(const Element&) const = default;
};

}  // namespace nomad_bridge::nft
