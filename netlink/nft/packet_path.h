// What the rules of a network namespace do with a packet, worked out without sending one.
//
// A packet is described as far as it is known. What a rule asks for and what is not known (a source
// address, a rate, an xt match) makes its effect one that may happen, not one that does. A rule
// with an expression of a kind that is not known here may match.
//
// Shapes  Numbers in host byte order. A mark has bits that are known and bits that are not.
// Costs   One dump of the chains, and for each table with a chain on the way one of its rules; of
//         a set its elements, when a rule asks for it.
// Limits  Rules of iptables-legacy are not nf_tables'. Concatenations of intervals may match.
// Errors  kKernel and kTryAgain from reading.
// Source  nft(8); linux/netfilter/nf_tables.h, x_tables.h, xt_*.h.
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

  bool operator==(const KnownBits&) const = default;
};

struct Packet {
  Family family = Family::kIpv4;
  std::uint8_t protocol = 0;  // IPPROTO_*; 0: not known
  std::optional<Ip> source;
  std::optional<Ip> destination;
  std::optional<std::uint16_t> source_port;
  std::optional<std::uint16_t> destination_port;
  std::string iifname;  // empty: not known, or none
  std::string oifname;
  int iif = 0;  // index; 0: not known, or none
  int oif = 0;
  std::optional<std::uint32_t> iif_group;  // of the link; nullopt: not known, or none
  std::optional<std::uint32_t> oif_group;
  KnownBits mark;
  KnownBits ct_mark;                       // of its connection
  KnownBits ct_state;                      // kCt...
  KnownBits ct_status;                     // IPS_*
  std::optional<std::uint8_t> tcp_flags;   // TH_*
  std::optional<std::uint8_t> icmp6_type;  // ICMPv6's
  // ARP's, ARPOP_*: the addresses are those that it names, and there is no protocol.
  std::optional<std::uint16_t> arp_operation;
  // The destination is an address of this machine; nullopt: not known.
  std::optional<bool> is_local = false;
  // Queues that a program reads: what goes to another one is dropped. nullopt: not known
  std::optional<std::vector<std::uint16_t>> read_queues = std::nullopt;
};

// Those of the namespace that this process is in.
[[nodiscard]] std::vector<std::uint16_t> ReadQueues();

// What a rule, or a chain's policy, does to a packet that is worth knowing.
struct Effect {
  enum class Kind : std::uint8_t {
    kDropped,
    kTranslated,  // to another destination
    kUntracked,   // conntrack does not see it, so no address is translated
    kSourced,     // from another address, which is known
    kZoned,       // into a zone of conntrack; the first rule that does so counts
    kHops,        // with another number of hops left; the last one counts
  };

  Kind kind = Kind::kDropped;
  TableId table;
  Chain base;                                        // where the packet came in, without its rules
  std::string chain;                                 // that the rule is in
  std::vector<std::string> path;                     // the chains from the base chain to that one
  std::uint64_t handle = 0;                          // of the rule; 0: the base chain's policy
  bool is_certain = true;                            // false: for some packets of this description
  std::optional<std::uint16_t> port = std::nullopt;  // of this machine: redirected there, if known
  std::optional<Ip> source = std::nullopt;           // the only one, of kSourced
  // Of kZoned: in which what it answers is looked for; nullopt: not known
  std::optional<std::uint16_t> zone = std::nullopt;
  std::optional<std::uint8_t> hops = std::nullopt;  // of kHops; nullopt: not known
};

struct KnownSet {
  Set description;
  std::vector<Element> elements;
};

class Ruleset {
 public:
  // Reads the tables, and the chains that are in force; the rest when it is needed. `socket` must
  // outlive it. `read_queues`: see Packet.
  Ruleset(Socket& socket, std::vector<std::uint16_t> read_queues);

  // The effects on `packet` of the base chains at `point`, in the order of their priorities and
  // ages, that `concerns` is true of: of families inet and the packet's own, or, with `family`, of
  // that.
  // Ends with the first effect that certainly drops it. Marks are set in `packet`.
  using Concerns = std::function<bool(const Socket::TableChain& base)>;
  [[nodiscard]] std::vector<Effect> Follow(Packet& packet,
                                           Hook::Point point,
                                           const Concerns& concerns,
                                           std::optional<TableFamily> family = std::nullopt);

  // Whether `one` was made after `other`; both are there.
  [[nodiscard]] bool IsYounger(const TableId& one, const TableId& other) const {
    const KernelTable* const table = Find(one);
    const KernelTable* const than = Find(other);
    return table != nullptr && than != nullptr && table->handle > than->handle;
  }
  [[nodiscard]] bool Has(const TableId& table) const { return Find(table) != nullptr; }

 private:
  friend class PacketWalk;

  [[nodiscard]] const KernelTable* Find(const TableId& table) const;
  [[nodiscard]] const std::vector<KernelRule>& RulesOf(const TableId& table,
                                                       const std::string& chain);
  [[nodiscard]] const KnownSet& SetOf(const TableId& table, const std::string& name);

  Socket& socket_;
  std::vector<std::uint16_t> read_queues_;
  std::vector<KernelTable> tables_;
  std::vector<Socket::TableChain> chains_;
  std::map<std::string, std::map<std::string, std::vector<KernelRule>>> rules_;  // by Text(table)
  std::map<std::string, KnownSet> sets_;                                         // by "table set"
};

}  // namespace nomad_bridge::nft
