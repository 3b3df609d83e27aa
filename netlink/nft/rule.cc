#include "netlink/nft/rule.h"

#include <algorithm>

#include <arpa/inet.h>  // before the kernel's own in.h, which gives way to it
#include <linux/if_ether.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/rtnetlink.h>

#include "netlink/core/handles.h"
#include "netlink/nft/registers.h"

namespace nomad_bridge::nft {
namespace {

Bytes NetworkOrder(std::uint16_t number) {
  return {static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number & 0xff)};
}

constexpr std::uint32_t kNameSlots = 4;  // an interface's name: 16 bytes

}  // namespace

const Field kEtherDaddr = {NFT_PAYLOAD_LL_HEADER, 0, ETH_ALEN};
const Field kEtherSaddr = {NFT_PAYLOAD_LL_HEADER, ETH_ALEN, ETH_ALEN};
const Field kIpSaddr = {NFT_PAYLOAD_NETWORK_HEADER, 12, 4};
const Field kIp6Saddr = {NFT_PAYLOAD_NETWORK_HEADER, 8, 16};
const Field kArpSaddrEther = {NFT_PAYLOAD_NETWORK_HEADER, 8, ETH_ALEN};
const Field kArpSaddrIp = {NFT_PAYLOAD_NETWORK_HEADER, 14, 4};
const Field kIcmpv6Type = {NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1};
const Field kUdpDport = {NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2};

Rule& Rule::Add(Expression expression) {
  expressions_.push_back(std::move(expression));
  return *this;
}

Rule& Rule::LoadMeta(std::uint32_t key, std::uint32_t slot) {
  return Add({"meta", {{NFTNL_EXPR_META_KEY, key}, {NFTNL_EXPR_META_DREG, Register(slot)}}});
}

// The flags are given even if there are none: the kernel shows them always. Of a map, what it has for
// the key goes into a register.
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

Rule& Rule::LoadAddress(bool source, std::size_t bytes) {
  constexpr std::uint32_t kIpv4Destination = 16;
  constexpr std::uint32_t kIpv6Destination = 24;
  Field field = family_ == Family::kIpv4 ? kIpSaddr : kIp6Saddr;
  if (!source) {
    field.offset = family_ == Family::kIpv4 ? kIpv4Destination : kIpv6Destination;
  }
  field.bytes = static_cast<std::uint32_t>(bytes);
  return Load(field, 0);
}

Rule& Rule::LoadAddress(bool source) {
  return LoadAddress(source, BytesOf(family_));
}

// th dport: the same two bytes in TCP, UDP and SCTP.
Rule& Rule::LoadPort(std::uint32_t slot) {
  return Load(kUdpDport, slot);
}

Rule& Rule::LoadIfname(bool incoming) {
  return LoadMeta(incoming ? NFT_META_IIFNAME : NFT_META_OIFNAME);
}

Rule& Rule::IfnamesNotIn(const std::string& set) {
  return LoadMeta(NFT_META_IIFNAME).LoadMeta(NFT_META_OIFNAME, kNameSlots).LookUp(set, true);
}

Rule& Rule::PortNotWith(const Field& field, const std::string& set) {
  return LoadMeta(NFT_META_IIFNAME).Load(field, kNameSlots).LookUp(set, true);
}

Rule& Rule::Protocol(std::uint16_t ether_type) {
  return LoadMeta(NFT_META_PROTOCOL).CompareEqual(NetworkOrder(ether_type));
}

Rule& Rule::EtherType(std::uint16_t ether_type) {
  return Is({NFT_PAYLOAD_LL_HEADER, 2 * ETH_ALEN, sizeof ether_type}, NetworkOrder(ether_type));
}

Rule& Rule::L4Proto(std::uint8_t number) {
  return LoadMeta(NFT_META_L4PROTO).CompareEqual({number});
}

// As nft does it: a range of one is compared, any other is so from below and from above.
Rule& Rule::Dport(std::uint16_t first, std::uint16_t last) {
  LoadPort(0);
  return first == last ? CompareEqual(NetworkOrder(first))
                       : CompareBy(NFT_CMP_GTE, NetworkOrder(first))
                             .CompareBy(NFT_CMP_LTE, NetworkOrder(last));
}

Rule& Rule::IsMasked(const Field& field, Bytes mask, Bytes value) {
  Bytes none(mask.size());
  return Load(field, 0).Mask(std::move(mask), std::move(none)).CompareEqual(std::move(value));
}

Rule& Rule::Only(Family family) {
  family_ = family;
  return LoadMeta(NFT_META_NFPROTO).CompareEqual({static_cast<std::uint8_t>(NumberOf(family))});
}

// As nft does it: a prefix of whole bytes is compared alone, any other under a mask.
Rule& Rule::MatchPrefix(bool source, bool equal, const Cidr& prefix) {
  constexpr int kBitsPerByte = 8;
  const Ip network = prefix.Network();
  const auto whole_bytes = static_cast<std::size_t>(prefix.prefix_length / kBitsPerByte);
  const int odd_bits = prefix.prefix_length % kBitsPerByte;
  if (odd_bits == 0) {
    const auto first = network.bytes().first(whole_bytes);
    return LoadAddress(source, whole_bytes).Compare(equal, {first.begin(), first.end()});
  }
  Bytes mask(network.bytes().size());
  std::fill_n(mask.begin(), whole_bytes, std::uint8_t{0xff});
  mask[whole_bytes] = static_cast<std::uint8_t>(0xff << (kBitsPerByte - odd_bits));
  Bytes value(network.bytes().begin(), network.bytes().end());
  Bytes none(mask.size());
  return LoadAddress(source, network.bytes().size())
      .Mask(std::move(mask), std::move(none))
      .Compare(equal, std::move(value));
}

Rule& Rule::DaddrIsLocal() {
  return Add({"fib",
              {{NFTNL_EXPR_FIB_DREG, std::uint32_t{NFT_REG_1}},
               {NFTNL_EXPR_FIB_RESULT, std::uint32_t{NFT_FIB_RESULT_ADDRTYPE}},
               {NFTNL_EXPR_FIB_FLAGS, std::uint32_t{NFTA_FIB_F_DADDR}}}})
      .CompareEqual(CpuOrder(RTN_LOCAL));
}

Rule& Rule::CtBits(std::uint32_t key, std::uint32_t bits, bool any) {
  return Add({"ct", {{NFTNL_EXPR_CT_DREG, std::uint32_t{NFT_REG_1}}, {NFTNL_EXPR_CT_KEY, key}}})
      .Mask(CpuOrder(bits), CpuOrder(0))
      .Compare(!any, CpuOrder(0));
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

Rule& Rule::MarkBitIsSet(int bit) {
  const std::uint32_t mark = std::uint32_t{1} << bit;
  return LoadMeta(NFT_META_MARK).Mask(CpuOrder(mark), CpuOrder(0)).CompareEqual(CpuOrder(mark));
}

}  // namespace nomad_bridge::nft
