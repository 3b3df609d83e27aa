// One nf_tables rule as a plain value. Its functions ("words") read like nft's syntax.
//
// Shapes  A rule is a list of expressions. An expression has a kind ("payload", "lookup", ...) and
//         the attributes for the kernel, with libnftnl's numbers. Numbers are in host byte order.
//         Bytes are as the kernel compares them: as on the wire (addresses, ports), or in the CPU's
//         order (marks, ct bits).
// Words   Matches first, one verdict or NAT statement last; the kernel reads left to right.
//           Rule().IifnameIn("bridges").CtState(kCtInvalid).Drop()
//           iifname @bridges ct state invalid drop
// Family  Call Ipv4() or Ipv6() before words about addresses. nft adds the same `meta nfproto`
//         dependency.
// Errors  None. The kernel checks a rule when its batch is committed.
// Source  nft(8); linux/netfilter/nf_tables.h; the words produce the same expressions as nft 1.0.6
//         (nft --debug=netlink).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <linux/if_ether.h>
#include <linux/netfilter/nf_tables.h>

#include "base/ip.h"
#include "netlink/nft/element.h"

namespace nomad_bridge::nft {

using Bytes = std::vector<std::uint8_t>;
using Value = std::variant<std::uint32_t, std::string, Bytes>;

struct Expression {
  std::string kind;
  std::vector<std::pair<std::uint16_t, Value>> attributes;

  bool operator==(const Expression&) const = default;
};

// Bits of `ct state`, for CtState(). linux/netfilter/nf_conntrack_common.h.
constexpr std::uint32_t kCtInvalid = 1;
constexpr std::uint32_t kCtEstablished = 2;
constexpr std::uint32_t kCtRelated = 4;
constexpr std::uint32_t kCtNew = 8;
constexpr std::uint32_t kCtUntracked = 64;

// Where bytes of a packet are: in which header (NFT_PAYLOAD_*_HEADER), and at which offset.
struct Field {
  std::uint32_t header = 0;
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
};
inline constexpr Field kEtherDaddr = {NFT_PAYLOAD_LL_HEADER, 0, ETH_ALEN};
inline constexpr Field kEtherSaddr = {NFT_PAYLOAD_LL_HEADER, ETH_ALEN, ETH_ALEN};
inline constexpr Field kIpSaddr = {NFT_PAYLOAD_NETWORK_HEADER, 12, 4};
inline constexpr Field kIpDaddr = {NFT_PAYLOAD_NETWORK_HEADER, 16, 4};
inline constexpr Field kIp6Saddr = {NFT_PAYLOAD_NETWORK_HEADER, 8, 16};
inline constexpr Field kIp6Daddr = {NFT_PAYLOAD_NETWORK_HEADER, 24, 16};
inline constexpr Field kArpSaddrEther = {NFT_PAYLOAD_NETWORK_HEADER, 8, ETH_ALEN};
inline constexpr Field kArpSaddrIp = {NFT_PAYLOAD_NETWORK_HEADER, 14, 4};
inline constexpr Field kArpDaddrIp = {NFT_PAYLOAD_NETWORK_HEADER, 24, 4};
inline constexpr Field kIcmpv6Type = {NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1};

class Rule {
 public:
  // iifname @set, iifname != @set, oifname @set, oifname != @set
  Rule& IifnameIn(const std::string& set) { return LoadIfname(true).LookUp(set); }
  Rule& IifnameNotIn(const std::string& set) { return LoadIfname(true).LookUp(set, true); }
  Rule& OifnameIn(const std::string& set) { return LoadIfname(false).LookUp(set); }
  Rule& OifnameNotIn(const std::string& set) { return LoadIfname(false).LookUp(set, true); }
  // oifname != "name"
  Rule& OifnameIsNot(const std::string& name);
  // iifname . oifname @set, iifname . oifname != @set
  Rule& IfnamesIn(const std::string& set) { return LoadIfnames().LookUp(set); }
  Rule& IfnamesNotIn(const std::string& set) { return LoadIfnames().LookUp(set, true); }
  // iifname . iifname @set: for a set of pairs of interfaces
  Rule& IifnameTwiceIn(const std::string& set) {
    return LoadMeta(NFT_META_IIFNAME).LoadMeta(NFT_META_IIFNAME, kSlotsOfIfname).LookUp(set);
  }
  // oifname vmap @map
  Rule& OifnameVmap(const std::string& map) { return LoadIfname(false).LookUp(map, false, 0); }

  // iifname . <field> . ... @set, iifname . <field> . ... != @set
  Rule& PortWith(std::initializer_list<Field> fields, const std::string& set) {
    return LoadPortWith(fields).LookUp(set);
  }
  Rule& PortNotWith(std::initializer_list<Field> fields, const std::string& set) {
    return LoadPortWith(fields).LookUp(set, true);
  }

  // oifname . <field> @set, <field> @set
  Rule& OutPortWith(const Field& field, const std::string& set) {
    return LoadIfname(false).Load(field, kSlotsOfIfname).LookUp(set);
  }
  Rule& FieldIn(const Field& field, const std::string& set) { return Load(field, 0).LookUp(set); }

  // update @set { <key> timeout <ms> counter }: adds the packet's key to a dynamic set, which
  // counts the packets of each element. If the set is full, no element is added, and the rule ends
  // here for this packet. The keys are: iifname . <field> . ..., iifname . oifname, ip saddr . ip
  // daddr, and ip saddr . ip daddr . meta l4proto . th dport. HasPort::kNo puts 0 as the port.
  Rule& NotePortWith(std::initializer_list<Field> fields,
                     const std::string& set,
                     std::uint64_t timeout_ms) {
    return LoadPortWith(fields).Note(set, timeout_ms);
  }
  Rule& NoteIfnames(const std::string& set, std::uint64_t timeout_ms) {
    return LoadIfnames().Note(set, timeout_ms);
  }
  Rule& NoteAddresses(const std::string& set, std::uint64_t timeout_ms) {
    return LoadAddresses().Note(set, timeout_ms);
  }
  enum class HasPort : std::uint8_t { kNo, kYes };
  Rule& NoteFlow(const std::string& set, HasPort has_port, std::uint64_t timeout_ms);

  // For the bridge family, which has two ways to match a protocol: `meta protocol`, on which ip and
  // ip6 fields depend, and `ether type`, which is the VLAN tag's type in a tagged frame.
  Rule& Protocol(std::uint16_t ether_type);
  Rule& EtherType(std::uint16_t ether_type);
  Rule& EtherTypeNot(std::uint16_t ether_type);
  // meta pkttype multicast
  Rule& Multicast();
  // meta l4proto <number>, meta l4proto != <number>
  Rule& L4Proto(std::uint8_t number);
  Rule& L4ProtoNot(std::uint8_t number);
  // <field> == value, <field> != value; ether daddr & mask == value
  Rule& Is(const Field& field, Bytes value) {
    return Load(field, 0).Compare(true, std::move(value));
  }
  Rule& IsNot(const Field& field, Bytes value) {
    return Load(field, 0).Compare(false, std::move(value));
  }
  Rule& IsMasked(const Field& field, Bytes mask, Bytes value);
  // <field> first-last
  Rule& Between(const Field& field, Bytes first, Bytes last);
  // th sport first-last, th dport first-last. Call L4Proto() before, for TCP, UDP or SCTP.
  Rule& Sport(std::uint16_t first, std::uint16_t last);
  Rule& Sport(std::uint16_t port) { return Sport(port, port); }
  Rule& Dport(std::uint16_t first, std::uint16_t last);
  Rule& Dport(std::uint16_t port) { return Dport(port, port); }
  // <to> set <from>, without updating any checksum
  Rule& Copy(const Field& from, const Field& to);
  // meta l4proto tcp tcp flags syn / syn,ack; meta l4proto tcp tcp flags & (syn | ack) != syn
  Rule& TcpBegins() { return TcpSyn(true); }
  Rule& TcpGoesOn() { return TcpSyn(false); }
  // ct direction original; ip daddr set ct original ip daddr tcp dport set ct original proto-dst.
  // The second word is only for TCP packets in that direction: it restores the destination to which
  // the sender sent them, before any translation.
  enum class Way : std::uint8_t { kOriginal, kReply };
  Rule& CtDirection(Way way);
  Rule& RestoreTcpDestination(Way way);

  // meta nfproto ipv4, meta nfproto ipv6. The words below then use that family.
  Rule& Ipv4() { return Only(Family::kIpv4); }
  Rule& Ipv6() { return Only(Family::kIpv6); }
  Rule& Only(Family family);

  // ip saddr @set, ip daddr @set (ip6 likewise)
  Rule& SaddrIn(const std::string& set) { return LoadAddress(true).LookUp(set); }
  Rule& DaddrIn(const std::string& set) { return LoadAddress(false).LookUp(set); }
  // ip saddr != @set, ip daddr != @set
  Rule& SaddrNotIn(const std::string& set) { return LoadAddress(true).LookUp(set, true); }
  Rule& DaddrNotIn(const std::string& set) { return LoadAddress(false).LookUp(set, true); }
  // ip saddr . ip daddr @set
  Rule& SaddrAndDaddrIn(const std::string& set);
  // ip saddr . iifname != @set
  Rule& SaddrAndIifnameNotIn(const std::string& set);
  // ip saddr vmap @map, ip daddr vmap @map: takes the verdict that the map has for the address. An
  // address without an element does not match.
  Rule& SaddrVmap(const std::string& map) { return LoadAddress(true).LookUp(map, false, 0); }
  Rule& DaddrVmap(const std::string& map) { return LoadAddress(false).LookUp(map, false, 0); }
  // ip saddr 127.0.0.0/8, ip daddr ..., ip daddr != ...
  Rule& Saddr(const Cidr& prefix) { return MatchPrefix(true, true, prefix); }
  Rule& Daddr(const Cidr& prefix) { return MatchPrefix(false, true, prefix); }
  Rule& DaddrNot(const Cidr& prefix) { return MatchPrefix(false, false, prefix); }
  // fib daddr type local, fib daddr type != local
  Rule& DaddrIsLocal() { return FibType(true); }
  Rule& DaddrIsNotLocal() { return FibType(false); }

  // ct state <any of these bits>
  Rule& CtState(std::uint32_t bits);
  // ct id @set
  Rule& CtIdIn(const std::string& set);
  // ct status dnat, ct status ! dnat
  Rule& CtStatusDnat();
  Rule& CtStatusNotDnat();

  // meta nftrace set 1
  Rule& SetTrace();
  // meta mark set mark
  Rule& SetMark(std::uint32_t mark);
  // meta priority <priority>, meta priority set <priority>
  Rule& PriorityIs(std::uint32_t priority);
  Rule& SetPriority(std::uint32_t priority);
  // meta mark set meta mark | (1 << bit)
  Rule& SetMarkBit(int bit);
  // meta mark set meta mark & ~(1 << bit)
  Rule& ClearMarkBit(int bit);
  // meta mark & (1 << bit) == (1 << bit), meta mark & (1 << bit) != (1 << bit)
  Rule& MarkBitIsSet(int bit) { return MarkBit(bit, true); }
  Rule& MarkBitIsNotSet(int bit) { return MarkBit(bit, false); }

  // dnat ip to meta l4proto . th dport map @map
  Rule& DnatByPort(const std::string& map);
  // dnat ip to ip daddr . meta l4proto . th dport map @map
  Rule& DnatByAddressAndPort(const std::string& map);
  Rule& Masquerade() { return Add({"masq", {}}); }
  // masquerade fully-random: the source port is random, too
  Rule& MasqueradeFullyRandom();

  // update @set { ct id timeout <ms> }: the packet's connection stays in a dynamic set for longer.
  // delete @set { ct id }
  Rule& KeepCtIdIn(const std::string& set, std::uint64_t timeout_ms);
  Rule& DeleteCtIdFrom(const std::string& set);
  Rule& Counter() { return Add({"counter", {}}); }
  // counter name "name"
  Rule& CountIn(const std::string& name);
  Rule& Accept() { return Decide({Verdict::Code::kAccept, {}}); }
  Rule& Drop() { return Decide({Verdict::Code::kDrop, {}}); }
  Rule& Jump(const std::string& chain) { return Decide({Verdict::Code::kJump, chain}); }
  Rule& Goto(const std::string& chain) { return Decide({Verdict::Code::kGoto, chain}); }
  Rule& Return() { return Decide({Verdict::Code::kReturn, {}}); }
  // reject with icmpx admin-prohibited
  Rule& RejectAdminProhibited();
  // reject with tcp reset: only for TCP
  Rule& RejectTcpReset();
  // comment "text": at most 128 bytes. It is stored as the rule's user data, where nft and
  // iptables-nft look for it.
  Rule& Comment(const std::string& text) {
    comment_ = text;
    return *this;
  }

  [[nodiscard]] const std::vector<Expression>& expressions() const { return expressions_; }
  [[nodiscard]] const std::string& comment() const { return comment_; }

  bool operator==(const Rule&) const = default;

 private:
  Rule& Add(Expression expression);
  // `into`: register 0 holds the verdict.
  Rule& LookUp(const std::string& set,
               bool inverted = false,
               std::optional<std::uint32_t> into = std::nullopt);
  Rule& CompareBy(std::uint32_t op, Bytes bytes);
  Rule& Compare(bool equal, Bytes bytes);
  Rule& CompareEqual(Bytes bytes) { return Compare(true, std::move(bytes)); }
  Rule& Mask(Bytes mask, Bytes flip = {});
  static constexpr std::uint32_t kSlotsOfIfname = 4;  // an interface's name: 16 bytes
  Rule& LoadIfname(bool incoming);
  Rule& LoadIfnames();
  Rule& LoadPortWith(std::initializer_list<Field> fields);
  Rule& LoadMeta(std::uint32_t key, std::uint32_t slot = 0);
  Rule& Load(const Field& field, std::uint32_t slot);
  [[nodiscard]] Field AddressField(bool source) const;
  Rule& LoadAddress(bool source) { return Load(AddressField(source), 0); }
  Rule& MatchPrefix(bool source, bool equal, const Cidr& prefix);
  Rule& Ports(const Field& field, std::uint16_t first, std::uint16_t last);
  Rule& FibType(bool is_local);
  Rule& MarkBit(int bit, bool is_set);
  Rule& StoreMeta(std::uint32_t key);
  Rule& LoadData(Bytes data, std::uint32_t slot = 0);
  Rule& CtBits(std::uint32_t key, std::uint32_t bits, bool any = true);
  Rule& LoadCt(std::uint32_t key, std::optional<Way> way = std::nullopt);
  Rule& LoadAddresses();
  Rule& Note(const std::string& set, std::uint64_t timeout_ms);
  Rule& ChangeSet(const std::string& set, std::uint32_t op, std::uint64_t timeout_ms);
  Rule& TcpSyn(bool begins);
  // Store() writes register 1 into the packet. This tells the kernel which checksums to update.
  struct Checksum {
    std::uint32_t type = 0;
    std::uint32_t offset = 0;
    std::uint32_t flags = 0;
  };
  Rule& Store(const Field& field, const Checksum& checksum);
  Rule& Dnat(const std::string& map);
  Rule& Decide(const Verdict& verdict);

  std::vector<Expression> expressions_;
  std::string comment_;
  Family family_ = Family::kIpv4;
};

}  // namespace nomad_bridge::nft
