#include "netlink/nft/rule.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <arpa/inet.h>  // before the kernel's own in.h, which gives way to it
#include <linux/if.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/rtnetlink.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>

#include "netlink/core/handles.h"

namespace nomad_bridge::nft {
namespace {

constexpr Field kEtherType = {NFT_PAYLOAD_LL_HEADER, 2 * ETH_ALEN, sizeof(std::uint16_t)};
// The ports of TCP, UDP and SCTP.
constexpr Field kSport = {NFT_PAYLOAD_TRANSPORT_HEADER, 0, 2};
constexpr Field kDport = {NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2};
constexpr Field kTcpFlags = {NFT_PAYLOAD_TRANSPORT_HEADER, 13, 1};

Bytes NetworkOrder(std::uint16_t number) {
  return {static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number & 0xff)};
}

// Returns a number in the CPU's byte order, as the kernel compares marks, ct bits and route types.
template <typename Number>
Bytes CpuOrder(Number number) {
  Bytes bytes(sizeof number);
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

// Registers are slots of 4 bytes. The kernel shows every fourth slot by its older name, as a
// 16-byte register. So does nft, and so do we: our rule must compare equal to the rule that the
// kernel shows.
constexpr std::uint32_t Register(std::uint32_t slot) {
  constexpr std::uint32_t kSlotsPerOldRegister = 4;
  return slot % kSlotsPerOldRegister == 0 ? NFT_REG_1 + slot / kSlotsPerOldRegister
                                          : NFT_REG32_00 + slot;
}

constexpr std::uint32_t SlotsOf(Family family) {
  return family == Family::kIpv4 ? 1 : 4;
}

constexpr std::uint32_t NumberOf(Family family) {
  return family == Family::kIpv4 ? NFPROTO_IPV4 : NFPROTO_IPV6;
}

constexpr std::uint32_t kSlotBytes = 4;

}  // namespace

Rule& Rule::Add(Expression expression) {
  expressions_.push_back(std::move(expression));
  return *this;
}

Rule& Rule::LoadMeta(std::uint32_t key, std::uint32_t slot) {
  return Add({"meta", {{NFTNL_EXPR_META_KEY, key}, {NFTNL_EXPR_META_DREG, Register(slot)}}});
}

// Sends the flags even if they are 0, because the kernel always shows them. If `set` is a map, the
// value for the key goes into the register `into`.
Rule& Rule::LookUp(const std::string& set, bool inverted, std::optional<std::uint32_t> into) {
  const std::uint32_t flags = inverted ? NFT_LOOKUP_F_INV : 0;
  Add({"lookup",
       {{NFTNL_EXPR_LOOKUP_SREG, std::uint32_t{NFT_REG_1}},
        {NFTNL_EXPR_LOOKUP_SET, set},
        {NFTNL_EXPR_LOOKUP_FLAGS, flags}}});
  if (into) {
    expressions_.back().attributes.emplace_back(NFTNL_EXPR_LOOKUP_DREG, *into);
  }
  return *this;
}

Rule& Rule::CompareBy(std::uint32_t op, Bytes bytes) {
  return Add({"cmp",
              {{NFTNL_EXPR_CMP_SREG, std::uint32_t{NFT_REG_1}},
               {NFTNL_EXPR_CMP_OP, op},
               {NFTNL_EXPR_CMP_DATA, std::move(bytes)}}});
}

Rule& Rule::Compare(bool equal, Bytes bytes) {
  return CompareBy(equal ? NFT_CMP_EQ : NFT_CMP_NEQ, std::move(bytes));
}

// register = (register & mask) ^ flip
Rule& Rule::Mask(Bytes mask, Bytes flip) {
  flip.resize(mask.size());
  const auto bytes = static_cast<std::uint32_t>(mask.size());
  return Add({"bitwise",
              {{NFTNL_EXPR_BITWISE_SREG, std::uint32_t{NFT_REG_1}},
               {NFTNL_EXPR_BITWISE_DREG, std::uint32_t{NFT_REG_1}},
               {NFTNL_EXPR_BITWISE_LEN, bytes},
               {NFTNL_EXPR_BITWISE_MASK, std::move(mask)},
               {NFTNL_EXPR_BITWISE_XOR, std::move(flip)}}});
}

// [ payload load ... ]
Rule& Rule::Load(const Field& field, std::uint32_t slot) {
  return Add({"payload",
              {{NFTNL_EXPR_PAYLOAD_DREG, Register(slot)},
               {NFTNL_EXPR_PAYLOAD_BASE, field.header},
               {NFTNL_EXPR_PAYLOAD_OFFSET, field.offset},
               {NFTNL_EXPR_PAYLOAD_LEN, field.bytes}}});
}

// The destination follows the source.
Field Rule::AddressField(bool source) const {
  const Field& saddr = family_ == Family::kIpv4 ? kIpSaddr : kIp6Saddr;
  return {saddr.header, saddr.offset + (source ? 0 : saddr.bytes), saddr.bytes};
}

Rule& Rule::LoadIfname(bool incoming) {
  return LoadMeta(incoming ? NFT_META_IIFNAME : NFT_META_OIFNAME);
}

Rule& Rule::OifnameIsNot(const std::string& name) {
  Bytes bytes(name.begin(), name.end());
  bytes.resize(IFNAMSIZ);
  return LoadIfname(false).Compare(false, std::move(bytes));
}

Rule& Rule::LoadIfnames() {
  return LoadMeta(NFT_META_IIFNAME).LoadMeta(NFT_META_OIFNAME, kSlotsOfIfname);
}

Rule& Rule::LoadPortWith(std::initializer_list<Field> fields) {
  LoadMeta(NFT_META_IIFNAME);
  std::uint32_t slot = kSlotsOfIfname;
  for (const Field& field : fields) {
    Load(field, slot);
    slot += (field.bytes + kSlotBytes - 1) / kSlotBytes;
  }
  return *this;
}

Rule& Rule::Protocol(std::uint16_t ether_type) {
  return LoadMeta(NFT_META_PROTOCOL).CompareEqual(NetworkOrder(ether_type));
}

Rule& Rule::EtherType(std::uint16_t ether_type) {
  return Is(kEtherType, NetworkOrder(ether_type));
}

Rule& Rule::EtherTypeNot(std::uint16_t ether_type) {
  return IsNot(kEtherType, NetworkOrder(ether_type));
}

Rule& Rule::TcpSyn(bool begins) {
  return L4Proto(IPPROTO_TCP)
      .Load(kTcpFlags, 0)
      .Mask({TH_SYN | TH_ACK})
      .Compare(begins, Bytes{TH_SYN});
}

Rule& Rule::LoadAddresses() {
  return LoadAddress(true).Load(AddressField(false), SlotsOf(family_));
}

Rule& Rule::SaddrAndDaddrIn(const std::string& set) {
  return LoadAddresses().LookUp(set);
}

Rule& Rule::SaddrAndIifnameNotIn(const std::string& set) {
  return LoadAddress(true).LoadMeta(NFT_META_IIFNAME, SlotsOf(family_)).LookUp(set, true);
}

Rule& Rule::Multicast() {
  return LoadMeta(NFT_META_PKTTYPE).CompareEqual({PACKET_MULTICAST});
}

Rule& Rule::L4Proto(std::uint8_t number) {
  return LoadMeta(NFT_META_L4PROTO).CompareEqual({number});
}

Rule& Rule::L4ProtoNot(std::uint8_t number) {
  return LoadMeta(NFT_META_L4PROTO).Compare(false, {number});
}

// Follows nft: a range of one port is one comparison, a longer range is two.
Rule& Rule::Ports(const Field& field, std::uint16_t first, std::uint16_t last) {
  return first == last ? Is(field, NetworkOrder(first))
                       : Between(field, NetworkOrder(first), NetworkOrder(last));
}

Rule& Rule::Sport(std::uint16_t first, std::uint16_t last) {
  return Ports(kSport, first, last);
}

Rule& Rule::Dport(std::uint16_t first, std::uint16_t last) {
  return Ports(kDport, first, last);
}

Rule& Rule::Between(const Field& field, Bytes first, Bytes last) {
  return Load(field, 0)
      .CompareBy(NFT_CMP_GTE, std::move(first))
      .CompareBy(NFT_CMP_LTE, std::move(last));
}

Rule& Rule::IsMasked(const Field& field, Bytes mask, Bytes value) {
  return Load(field, 0).Mask(std::move(mask)).CompareEqual(std::move(value));
}

Rule& Rule::Only(Family family) {
  family_ = family;
  return LoadMeta(NFT_META_NFPROTO).CompareEqual({static_cast<std::uint8_t>(NumberOf(family))});
}

// Follows nft: compares only the bytes of a prefix of whole bytes; masks other prefixes.
Rule& Rule::MatchPrefix(bool source, bool equal, const Cidr& prefix) {
  constexpr int kBitsPerByte = 8;
  const Ip network = prefix.Network();
  Field field = AddressField(source);
  const auto whole_bytes = static_cast<std::size_t>(prefix.prefix_length / kBitsPerByte);
  const int odd_bits = prefix.prefix_length % kBitsPerByte;
  if (odd_bits == 0) {
    const auto first = network.bytes().first(whole_bytes);
    field.bytes = static_cast<std::uint32_t>(whole_bytes);
    return Load(field, 0).Compare(equal, {first.begin(), first.end()});
  }
  Bytes mask(network.bytes().size());
  std::fill_n(mask.begin(), whole_bytes, std::uint8_t{0xff});
  mask[whole_bytes] = static_cast<std::uint8_t>(0xff << (kBitsPerByte - odd_bits));
  Bytes value(network.bytes().begin(), network.bytes().end());
  return Load(field, 0).Mask(std::move(mask)).Compare(equal, std::move(value));
}

Rule& Rule::FibType(bool is_local) {
  return Add({"fib",
              {{NFTNL_EXPR_FIB_DREG, std::uint32_t{NFT_REG_1}},
               {NFTNL_EXPR_FIB_RESULT, std::uint32_t{NFT_FIB_RESULT_ADDRTYPE}},
               {NFTNL_EXPR_FIB_FLAGS, std::uint32_t{NFTA_FIB_F_DADDR}}}})
      .Compare(is_local, CpuOrder(RTN_LOCAL));
}

Rule& Rule::LoadCt(std::uint32_t key, std::optional<Way> way) {
  Add({"ct", {{NFTNL_EXPR_CT_DREG, std::uint32_t{NFT_REG_1}}, {NFTNL_EXPR_CT_KEY, key}}});
  if (way) {
    expressions_.back().attributes.emplace_back(NFTNL_EXPR_CT_DIR,
                                                Bytes{static_cast<std::uint8_t>(*way)});
  }
  return *this;
}

Rule& Rule::CtBits(std::uint32_t key, std::uint32_t bits, bool any) {
  return LoadCt(key).Mask(CpuOrder(bits)).Compare(!any, CpuOrder(0));
}

Rule& Rule::CtDirection(Way way) {
  return LoadCt(NFT_CT_DIRECTION).CompareEqual({static_cast<std::uint8_t>(way)});
}

Rule& Rule::CtIdIn(const std::string& set) {
  return LoadCt(NFT_CT_ID).LookUp(set);
}

Rule& Rule::CtState(std::uint32_t bits) {
  return CtBits(NFT_CT_STATE, bits);
}

Rule& Rule::CtStatusDnat() {
  return CtBits(NFT_CT_STATUS, IPS_DST_NAT);
}

Rule& Rule::CtStatusNotDnat() {
  return CtBits(NFT_CT_STATUS, IPS_DST_NAT, false);
}

Rule& Rule::MarkBit(int bit, bool is_set) {
  const std::uint32_t mark = std::uint32_t{1} << bit;
  return LoadMeta(NFT_META_MARK).Mask(CpuOrder(mark)).Compare(is_set, CpuOrder(mark));
}

Rule& Rule::Copy(const Field& from, const Field& to) {
  return Load(from, 0).Store(to, {.type = NFT_PAYLOAD_CSUM_NONE});
}

Rule& Rule::Store(const Field& field, const Checksum& checksum) {
  return Add({"payload",
              {{NFTNL_EXPR_PAYLOAD_SREG, Register(0)},
               {NFTNL_EXPR_PAYLOAD_BASE, field.header},
               {NFTNL_EXPR_PAYLOAD_OFFSET, field.offset},
               {NFTNL_EXPR_PAYLOAD_LEN, field.bytes},
               {NFTNL_EXPR_PAYLOAD_CSUM_TYPE, checksum.type},
               {NFTNL_EXPR_PAYLOAD_CSUM_OFFSET, checksum.offset},
               {NFTNL_EXPR_PAYLOAD_FLAGS, checksum.flags}}});
}

// Updates the checksums of the IPv4 header (IPv6 has none) and of TCP, which covers the addresses.
Rule& Rule::RestoreTcpDestination(Way way) {
  const bool is_ipv4 = family_ == Family::kIpv4;
  const Checksum of_ip = {
      .type = is_ipv4 ? std::uint32_t{NFT_PAYLOAD_CSUM_INET} : std::uint32_t{NFT_PAYLOAD_CSUM_NONE},
      .offset = is_ipv4 ? std::uint32_t{offsetof(iphdr, check)} : 0,
      .flags = NFT_PAYLOAD_L4CSUM_PSEUDOHDR};
  return LoadCt(is_ipv4 ? NFT_CT_DST_IP : NFT_CT_DST_IP6, way)
      .Store(AddressField(false), of_ip)
      .LoadCt(NFT_CT_PROTO_DST, way)
      .Store(kDport, {.type = NFT_PAYLOAD_CSUM_INET, .offset = offsetof(tcphdr, check)});
}

Rule& Rule::StoreMeta(std::uint32_t key) {
  return Add(
      {"meta", {{NFTNL_EXPR_META_KEY, key}, {NFTNL_EXPR_META_SREG, std::uint32_t{NFT_REG_1}}}});
}

Rule& Rule::LoadData(Bytes data, std::uint32_t slot) {
  return Add({"immediate",
              {{NFTNL_EXPR_IMM_DREG, Register(slot)}, {NFTNL_EXPR_IMM_DATA, std::move(data)}}});
}

Rule& Rule::SetTrace() {
  return LoadData({1}).StoreMeta(NFT_META_NFTRACE);
}

Rule& Rule::SetMark(std::uint32_t mark) {
  return LoadData(CpuOrder(mark)).StoreMeta(NFT_META_MARK);
}

Rule& Rule::PriorityIs(std::uint32_t priority) {
  return LoadMeta(NFT_META_PRIORITY).CompareEqual(CpuOrder(priority));
}

Rule& Rule::SetPriority(std::uint32_t priority) {
  return LoadData(CpuOrder(priority)).StoreMeta(NFT_META_PRIORITY);
}

Rule& Rule::SetMarkBit(int bit) {
  const std::uint32_t mark = std::uint32_t{1} << bit;
  return LoadMeta(NFT_META_MARK).Mask(CpuOrder(~mark), CpuOrder(mark)).StoreMeta(NFT_META_MARK);
}

Rule& Rule::ClearMarkBit(int bit) {
  const std::uint32_t mark = std::uint32_t{1} << bit;
  return LoadMeta(NFT_META_MARK).Mask(CpuOrder(~mark)).StoreMeta(NFT_META_MARK);
}

Rule& Rule::DnatByPort(const std::string& map) {
  return LoadMeta(NFT_META_L4PROTO).Load(kDport, 1).Dnat(map);
}

Rule& Rule::DnatByAddressAndPort(const std::string& map) {
  const std::uint32_t slots = SlotsOf(family_);
  return LoadAddress(false).LoadMeta(NFT_META_L4PROTO, slots).Load(kDport, slots + 1).Dnat(map);
}

// Looks up the key in register 1, and translates to the address and port that the map has for it.
// Sends minimum, maximum and flags as the kernel shows them, so that our rule and its dump compare
// equal.
Rule& Rule::Dnat(const std::string& map) {
  const std::uint32_t address = Register(0);
  const std::uint32_t port = Register(SlotsOf(family_));
  LookUp(map, false, address);
  return Add({"nat",
              {{NFTNL_EXPR_NAT_TYPE, std::uint32_t{NFT_NAT_DNAT}},
               {NFTNL_EXPR_NAT_FAMILY, NumberOf(family_)},
               {NFTNL_EXPR_NAT_REG_ADDR_MIN, address},
               {NFTNL_EXPR_NAT_REG_ADDR_MAX, address},
               {NFTNL_EXPR_NAT_REG_PROTO_MIN, port},
               {NFTNL_EXPR_NAT_REG_PROTO_MAX, port},
               {NFTNL_EXPR_NAT_FLAGS,
                std::uint32_t{NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED}}}});
}

Rule& Rule::MasqueradeFullyRandom() {
  return Add({"masq", {{NFTNL_EXPR_MASQ_FLAGS, std::uint32_t{NF_NAT_RANGE_PROTO_RANDOM_FULLY}}}});
}

// [ dynset <op> reg_key 1 set <set> timeout <timeout> ]
// Always sends a timeout, because the kernel always shows one.
Rule& Rule::ChangeSet(const std::string& set, std::uint32_t op, std::uint64_t timeout_ms) {
  return Add({"dynset",
              {{NFTNL_EXPR_DYNSET_SREG_KEY, Register(0)},
               {NFTNL_EXPR_DYNSET_OP, op},
               {NFTNL_EXPR_DYNSET_TIMEOUT, CpuOrder(timeout_ms)},
               {NFTNL_EXPR_DYNSET_SET_NAME, set}}});
}

Rule& Rule::KeepCtIdIn(const std::string& set, std::uint64_t timeout_ms) {
  return LoadCt(NFT_CT_ID).ChangeSet(set, NFT_DYNSET_OP_UPDATE, timeout_ms);
}

Rule& Rule::DeleteCtIdFrom(const std::string& set) {
  return LoadCt(NFT_CT_ID).ChangeSet(set, NFT_DYNSET_OP_DELETE, 0);
}

Rule& Rule::NoteFlow(const std::string& set, HasPort has_port, std::uint64_t timeout_ms) {
  const std::uint32_t slots = SlotsOf(family_);
  const std::uint32_t port = 2 * slots + 1;
  LoadAddresses().LoadMeta(NFT_META_L4PROTO, 2 * slots);
  has_port == HasPort::kYes ? Load(kDport, port) : LoadData(NetworkOrder(0), port);
  return Note(set, timeout_ms);
}

// Sends the set's own timeout: a kernel may show that one anyway.
Rule& Rule::Note(const std::string& set, std::uint64_t timeout_ms) {
  ChangeSet(set, NFT_DYNSET_OP_UPDATE, timeout_ms);
  expressions_.back().attributes.emplace_back(NFTNL_EXPR_DYNSET_EXPR, "counter");
  return *this;
}

Rule& Rule::CountIn(const std::string& name) {
  return Add({"objref",
              {{NFTNL_EXPR_OBJREF_IMM_TYPE, std::uint32_t{NFT_OBJECT_COUNTER}},
               {NFTNL_EXPR_OBJREF_IMM_NAME, name}}});
}

Rule& Rule::Decide(const Verdict& verdict) {
  Add({"immediate",
       {{NFTNL_EXPR_IMM_DREG, std::uint32_t{NFT_REG_VERDICT}},
        {NFTNL_EXPR_IMM_VERDICT, static_cast<std::uint32_t>(verdict.code)}}});
  if (!verdict.chain.empty()) {
    expressions_.back().attributes.emplace_back(NFTNL_EXPR_IMM_CHAIN, verdict.chain);
  }
  return *this;
}

// The kernel translates the code to ICMP's or ICMPv6's.
Rule& Rule::RejectAdminProhibited() {
  return Add({"reject",
              {{NFTNL_EXPR_REJECT_TYPE, std::uint32_t{NFT_REJECT_ICMPX_UNREACH}},
               {NFTNL_EXPR_REJECT_CODE, Bytes{NFT_REJECT_ICMPX_ADMIN_PROHIBITED}}}});
}

Rule& Rule::RejectTcpReset() {
  return Add({"reject", {{NFTNL_EXPR_REJECT_TYPE, std::uint32_t{NFT_REJECT_TCP_RST}}}});
}

}  // namespace nomad_bridge::nft
