// Whether the rules of a network namespace drop a packet, worked out without sending one.
//
// A packet is described as far as it is known: by its links, family, protocol, mark and conntrack
// state. A rule that asks for anything else (an address, a port, a rate, an xt match), or that
// hands the packet to a program (queue), has an effect on some packets of this description. So has
// a rule with an expression that is not known here. Only what happens to all of them is told.
//
// Shapes  Numbers in host byte order. A mark has bits that are known and bits that are not.
// Costs   One dump of the tables and one of the chains; for each table with a chain on the way one
//         dump of its rules; for each set that a rule looks up its elements.
// Limits  Rules of iptables-legacy are not in nf_tables. Links by index are not known.
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

// A number of which some bits are known; the others of `value` are 0.
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
  bool is_policy = false;  // else a rule drops, of the chain or of one that it leads to
};

struct KnownSet {
  Set description;
  std::vector<Element> elements;
};

class Ruleset {
 public:
  // Reads the tables, and the chains that are in force; rules and sets when they are needed.
  // `socket` must outlive it.
  explicit Ruleset(Socket& socket);

  // The first base chain that surely drops `packet`, of those that `concerns` is true of: they must
  // be of one hook. The packet passes those of family inet and of its own family, in the order of
  // their priorities and ages, with the marks that their rules set.
  using Concerns = std::function<bool(const Socket::TableChain& base)>;
  [[nodiscard]] std::optional<Drop> FindDrop(Packet packet, const Concerns& concerns);

 private:
  friend class PacketWalk;

  [[nodiscard]] const std::vector<KernelRule>& RulesOf(const TableId& table,
                                                       const std::string& chain);
  // An empty one if there is none.
  [[nodiscard]] const KnownSet& SetOf(const TableId& table, const std::string& name);

  Socket& socket_;
  std::vector<Socket::TableChain> chains_;
  std::map<std::string, std::map<std::string, std::vector<KernelRule>>> rules_;  // by Text(table)
  std::map<std::string, KnownSet> sets_;                                         // by "table set"
};

}  // namespace nomad_bridge::nft
