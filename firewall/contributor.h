// A contributor adds sets, chains and rules to one of our tables. The rows of its sets are the only
// place that says which part of an attachment a set's elements belong to, and which fields they
// have.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "netlink/nft/table.h"

namespace nomad_bridge::firewall {

// Our tables: inet nomad-bridge, and bridge nomad-bridge if something needs it.
using Tables = std::vector<nft::Table>;

// Why an attachment has elements in a set.
enum class Role {
  kNone,        // none has: the elements describe the tables
  kAny,         // the attachment has any rules: rules for all other elements need these, too
  kForwarding,  // the node forwards for the attachment
  kJudged,      // policies are in force, whichever parts the attachment has
  kMasquerade,  // the attachment's packets leave the node with the node's address
  kPorts,       // the attachment's published ports
  kSource,      // the attachment may send only from its own addresses
};

// kIpv4Addr means an address of either family: such a set exists twice, with a name ending in 4 or
// 6.
struct SetRow {
  std::string_view noun;
  std::vector<nft::Type> key;
  std::vector<nft::Type> data;  // empty: a set; else a map
  Role role;
  // As in nft::Set.
  std::uint32_t flags = 0;
  std::uint32_t size = 0;
  std::uint64_t timeout_ms = 0;
};

// A chain whose rules drop, and the key of the network's config that says so. The table has a
// counter of the key's name, which rules in DropChain() count in (drops.h).
struct DroppingChain {
  const char* name;
  std::string_view key;
};

struct Contributor {
  nft::TableFamily table;
  std::vector<SetRow> (*sets)();
  // If an earlier contributor has a chain of the same name, the rules are appended to that chain.
  std::vector<nft::Chain> (*chains)(int accept_mark_bit);
  // Policies have none: their chains drop what their files say.
  std::span<const DroppingChain> dropping = {};
};
using Contributors = std::vector<const Contributor*>;

struct OwnSet {
  nft::TableFamily table;
  nft::Set set;
  Role role;
};
[[nodiscard]] std::vector<nft::Set> SetsOf(const SetRow& row);
[[nodiscard]] std::vector<OwnSet> SetsOf(const Contributors& contributors);

[[nodiscard]] Tables Assemble(const Contributors& contributors, int accept_mark_bit);

}  // namespace nomad_bridge::firewall
