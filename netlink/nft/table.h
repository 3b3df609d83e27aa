// A table of nf_tables as a plain value: its sets, maps and chains, without their elements.
//
// Shapes  Names as nft prints them. Priorities are numbers (dstnat -100, srcnat 100, raw -300,
//         filter 0).
// Source  nft(8); linux/netfilter/nf_tables.h. Type's numbers are nft's datatypes
//         (include/datatype.h), which nft writes into a set so that it can print it again; six bits
//         each in a concatenation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "netlink/nft/element.h"
#include "netlink/nft/rule.h"

namespace nomad_bridge::nft {

// "inet", "ip", "arp", "ip6", "netdev", "bridge"; empty for kAny.
[[nodiscard]] std::string Text(TableFamily family);

struct TableId {
  TableFamily family = TableFamily::kInet;
  std::string name;

  bool operator==(const TableId&) const = default;
};

// "inet nomad-bridge".
[[nodiscard]] std::string Text(const TableId& table);

enum class Type : std::uint8_t {
  kVerdict = 1,  // only as data
  kCtId = 4,     // nft's integer; only alone
  kIpv4Addr = 7,
  kIpv6Addr = 8,
  kEtherAddr = 9,
  kInetProto = 12,
  kInetService = 13,
  kMark = 19,
  kIfname = 41,
};

// Returns the size of one field in bytes, padded to whole registers as in a concatenation.
[[nodiscard]] std::size_t PaddedBytes(Type type);

// Reads the fields of a key one after the other.
class KeyReader {
 public:
  explicit KeyReader(std::span<const std::uint8_t> key) : rest_(key) {}

  // Returns the next field, padded to whole registers.
  [[nodiscard]] std::span<const std::uint8_t> Take(Type type) {
    const std::span<const std::uint8_t> field = rest_.first(PaddedBytes(type));
    rest_ = rest_.subspan(field.size());
    return field;
  }

 private:
  std::span<const std::uint8_t> rest_;
};

// For Set::flags: NFT_SET_INTERVAL; NFT_SET_EVAL and NFT_SET_TIMEOUT together.
constexpr std::uint32_t kInterval = 4;
constexpr std::uint32_t kDynamic = 0x30;

struct Set {
  std::string name;
  std::vector<Type> key;   // more than one: a concatenation
  std::vector<Type> data;  // empty: a set; else a map
  // NFT_SET_* without NFT_SET_MAP: intervals, timeouts, ...
  std::uint32_t flags = 0;
  // Only for a dynamic set: the maximal number of elements, and how long an element stays after its
  // last update.
  std::uint32_t size = 0;
  std::uint64_t timeout_ms = 0;

  // Returns whether rules add the elements.
  [[nodiscard]] bool is_dynamic() const { return (flags & kDynamic) == kDynamic; }
  // Returns whether the set belongs to a rule, and is deleted with it.
  [[nodiscard]] bool is_anonymous() const { return (flags & 1) != 0; }

  bool operator==(const Set&) const = default;
};

// The key of `element` as nft prints it: "192.0.2.1 . tcp . 8080".
[[nodiscard]] std::string KeyText(const Set& set, const Element& element);

// Where a base chain is attached.
struct Hook {
  // NF_INET_* numbers, which the bridge family uses, too. The netdev family has only kIngress and
  // kEgress, the arp family only kArpInput and kArpOutput. kInetIngress is only for the inet
  // family.
  enum class Point : std::uint8_t {
    kPrerouting,
    kInput,
    kForward,
    kOutput,
    kPostrouting,
    kInetIngress,
    kIngress = kPrerouting,
    kEgress = kInput,
    kArpInput = kPrerouting,
    kArpOutput = kInput
  };

  std::string type;  // "filter", "nat"
  Point point = Point::kPrerouting;
  std::int32_t priority = 0;
  bool drops = false;                     // the chain's policy is drop, not accept
  std::vector<std::string> devices = {};  // of an ingress or egress hook

  bool operator==(const Hook&) const = default;
};

struct Chain {
  std::string name;
  std::optional<Hook> hook;  // nullopt: a chain to jump to
  std::vector<Rule> rules;

  bool operator==(const Chain&) const = default;
};

// A counter that rules refer to by name, and that outlives the rules.
struct Counter {
  std::string name;
  std::string comment = {};
  std::uint64_t packets = 0;  // as the kernel shows them; a new counter begins at 0

  bool operator==(const Counter&) const = default;
};

struct Table {
  TableId id;
  std::vector<Set> sets;
  std::vector<Chain> chains;
  std::vector<Counter> counters;

  // Returns nullptr if there is no set of that name.
  [[nodiscard]] const Set* FindSet(const std::string& name) const;
  [[nodiscard]] const Chain* FindChain(const std::string& name) const;
};

}  // namespace nomad_bridge::nft
