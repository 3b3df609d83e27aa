// What a rule does with a packet that it matches: marks, rewrites, translates, or decides.
#include <arpa/inet.h>  // before the kernel's own in.h, which gives way to it
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>

#include "netlink/core/handles.h"
#include "netlink/nft/registers.h"
#include "netlink/nft/rule.h"

namespace nomad_bridge::nft {

Rule& Rule::Copy(const Field& from, const Field& to) {
  return Load(from, 0).Add({"payload",
                            {{NFTNL_EXPR_PAYLOAD_SREG, Register(0)},
                             {NFTNL_EXPR_PAYLOAD_BASE, to.header},
                             {NFTNL_EXPR_PAYLOAD_OFFSET, to.offset},
                             {NFTNL_EXPR_PAYLOAD_LEN, to.bytes},
                             {NFTNL_EXPR_PAYLOAD_CSUM_TYPE, std::uint32_t{NFT_PAYLOAD_CSUM_NONE}},
                             {NFTNL_EXPR_PAYLOAD_CSUM_OFFSET, std::uint32_t{0}},
                             {NFTNL_EXPR_PAYLOAD_FLAGS, std::uint32_t{0}}}});
}

Rule& Rule::StoreMark() {
  return Add({"meta",
              {{NFTNL_EXPR_META_KEY, std::uint32_t{NFT_META_MARK}},
               {NFTNL_EXPR_META_SREG, std::uint32_t{NFT_REG_1}}}});
}

Rule& Rule::SetMark(std::uint32_t mark) {
  return Add({"immediate",
              {{NFTNL_EXPR_IMM_DREG, std::uint32_t{NFT_REG_1}},
               {NFTNL_EXPR_IMM_DATA, CpuOrder(mark)}}})
      .StoreMark();
}

Rule& Rule::SetMarkBit(int bit) {
  const std::uint32_t mark = std::uint32_t{1} << bit;
  return LoadMeta(NFT_META_MARK).Mask(CpuOrder(~mark), CpuOrder(mark)).StoreMark();
}

Rule& Rule::DnatByPort(const std::string& map) {
  return LoadMeta(NFT_META_L4PROTO).LoadPort(1).Dnat(map);
}

Rule& Rule::DnatByAddressAndPort(const std::string& map) {
  const std::uint32_t slots = SlotsOf(family_);
  return LoadAddress(false).LoadMeta(NFT_META_L4PROTO, slots).LoadPort(slots + 1).Dnat(map);
}

// Looks the key in register 1 up and translates to what the map holds. Minimum, maximum and flags
// are spelled out as the kernel shows them, so that our rule and its dump compare equal.
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

Rule& Rule::Decide(const Verdict& verdict) {
  Add({"immediate",
       {{NFTNL_EXPR_IMM_DREG, std::uint32_t{NFT_REG_VERDICT}},
        {NFTNL_EXPR_IMM_VERDICT, static_cast<std::uint32_t>(verdict.code)}}});
  if (!verdict.chain.empty()) {
    expressions_.back().attributes.emplace_back(NFTNL_EXPR_IMM_CHAIN, verdict.chain);
  }
  return *this;
}

// The kernel makes it ICMP's or ICMPv6's code.
Rule& Rule::RejectAdminProhibited() {
  return Add({"reject",
              {{NFTNL_EXPR_REJECT_TYPE, std::uint32_t{NFT_REJECT_ICMPX_UNREACH}},
               {NFTNL_EXPR_REJECT_CODE, Bytes{NFT_REJECT_ICMPX_ADMIN_PROHIBITED}}}});
}

}  // namespace nomad_bridge::nft
