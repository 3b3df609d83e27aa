// What our tables are made of: each contributor has sets, chains and rules in one of them. What is
// asked about a set anywhere (whose elements it has, of which shape they are) is answered by these
// rows.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "netlink/nft/table.h"

namespace nomad_bridge::firewall {

// Ours: inet nomad-bridge, and bridge nomad-bridge where something needs it.
using Tables = std::vector<nft::Table>;

// What an attachment has elements of a set for.
enum class Role {
  kAny,         // whatever it has rules for: they all rest on it
  kForwarding,  // the node forwards for it
  kMasquerade,  // it leaves the node with the node's address
  kPorts,       // its published ports
  kSource,      // it sends with its own addresses alone
};

// kIpv4Addr stands for an address of either family: such a set exists twice, its name ending in 4
// or 6.
struct SetRow {
  std::string_view noun;
  std::vector<nft::Type> key;
  std::vector<nft::Type> data;  // empty: a set; else a map
  Role role;
  // As of nft::Set.
  std::uint32_t flags = 0;
  std::uint32_t size = 0;
  std::uint64_t timeout_ms = 0;
};

struct Contributor {
  nft::TableFamily table;
  std::vector<SetRow> (*sets)();
  // The rules of a chain that an earlier contributor has are appended to that.
  std::vector<nft::Chain> (*chains)(int accept_mark_bit);
};
using Contributors = std::vector<const Contributor*>;

struct OwnSet {
  nft::TableFamily table;
  nft::Set set;
  Role role;
};
[[nodiscard]] std::vector<OwnSet> SetsOf(const Contributors& contributors);

[[nodiscard]] Tables Assemble(const Contributors& contributors, int accept_mark_bit);

}  // namespace nomad_bridge::firewall
