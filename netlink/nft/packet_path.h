// Finds out whether the rules of a network namespace drop a packet, without sending one.
//
// The description of a packet has its links, family, protocol, mark and conntrack state, as far as
// they are known. A rule that matches anything else (an address, a port, a rate, an xt match), or
// that hands the packet to a program (queue), affects some packets of this description. So does a
// rule with an unknown expression. The result covers only what happens to all these packets.
//
// Shapes  Numbers in host byte order. A mark has bits that are known and bits that are not.
// Costs   One dump of all tables and one of all chains; one dump of rules for each table whose
//         chains the packet passes; one dump of elements for each set that a rule looks up.
// Limits  Does not see the rules of iptables-legacy, which are not in nf_tables. Does not know the
//         index of a link, only its name.
// Errors  kKernel and kTryAgain from reading.
// Source  nft(8); linux/netfilter/nf_tables.h
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ip.h"
#include "netlink/nft/socket.h"

namespace nomad_bridge::nft {

// A number with some known bits; all other bits of `value` are 0.
struct KnownBits {
  std::uint32_t value = 0;
  std::uint32_t known = 0;
};

struct Packet {
  Family family = Family::kIpv4;
  std::uint8_t protocol = 0;   // IPPROTO_*
  std::string iifname;         // empty: not known
  std::string oifname;         // empty: not known
  std::uint32_t ct_state = 0;  // kCt...
  KnownBits mark;
};

// A base chain that drops every packet of a description.
struct Drop {
  TableId table;
  Chain base;              // without its rules
  bool is_policy = false;  // false: a rule of this chain drops, or of a chain that it leads to
};

struct KnownSet {
  Set description;
  std::vector<Element> elements;
};

class Ruleset {
 public:
  // Reads the tables and the chains of tables that are not dormant; reads rules and sets later,
  // when they are needed. `socket` must outlive this object.
  explicit Ruleset(Socket& socket);

  // Finds the first base chain that certainly drops `packet`, among the chains for which `concerns`
  // is true; these must belong to one hook. Follows the kernel's order (by priority and age)
  // through the chains of family inet and of the packet's own family, and applies the marks that
  // rules set.
  using Concerns = std::function<bool(const Socket::TableChain& base)>;
  [[nodiscard]] std::optional<Drop> FindDrop(Packet packet, const Concerns& concerns);

 private:
  friend class PacketWalk;

  [[nodiscard]] const std::vector<KernelRule>& RulesOf(const TableId& table,
                                                       const std::string& chain);
  // Returns an empty set if the table has no set of this name.
  [[nodiscard]] const KnownSet& SetOf(const TableId& table, const std::string& name);

  Socket& socket_;
  std::vector<Socket::TableChain> chains_;
  std::map<std::string, std::map<std::string, std::vector<KernelRule>>> rules_;  // by Text(table)
  std::map<std::string, KnownSet> sets_;                                         // by "table set"
};

}  // namespace nomad_bridge::nft
