#include "netlink/nft/rewrites.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_tuple_common.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/xt_CT.h>
#include <linux/netfilter_ipv4/ipt_TTL.h>

#include "netlink/core/handles.h"
#include "netlink/nft/packet_fields.h"

namespace nomad_bridge::nft {
namespace {

// Of xt's CT, all of whose revisions' structs begin so.
struct TargetHead {
  std::uint16_t flags = 0;
  std::uint16_t zone = 0;
};

}  // namespace

std::optional<std::size_t> FindHops(const Packet& packet, const Expression& payload) {
  const std::size_t at = packet.family == Family::kIpv4 ? 8 : 7;
  const std::size_t first = NumberOf(payload, NFTNL_EXPR_PAYLOAD_OFFSET);
  const std::size_t size = NumberOf(payload, NFTNL_EXPR_PAYLOAD_LEN);
  const bool is_in = NumberOf(payload, NFTNL_EXPR_PAYLOAD_BASE) == NFT_PAYLOAD_NETWORK_HEADER &&
                     !packet.arp_operation && first <= at && at < first + size;
  return is_in ? std::optional(at - first) : std::nullopt;
}

std::optional<std::uint8_t> HopsOfTarget(const Expression& target) {
  const auto info = FindInfo<ipt_TTL_info>(target, NFTNL_EXPR_TG_INFO);
  return info && info->mode == IPT_TTL_SET ? std::optional(info->ttl) : std::nullopt;
}

std::optional<std::uint16_t> AnswersZone(const Expression& set,
                                         std::span<const PartialByte> value) {
  if (BytesOf(set, NFTNL_EXPR_CT_DIR) == Bytes{IP_CT_DIR_ORIGINAL}) {
    return 0;
  }
  std::uint16_t zone = 0;
  if (value.size() != sizeof zone || !IsKnown(value)) {
    return std::nullopt;
  }
  const std::array<std::uint8_t, sizeof zone> bytes = {value[0].value, value[1].value};
  std::memcpy(&zone, bytes.data(), bytes.size());
  return zone;
}

std::optional<std::uint16_t> AnswersZoneOfTarget(const Expression& target) {
  const auto head = InfoOf<TargetHead>(target, NFTNL_EXPR_TG_INFO);
  if ((head.flags & XT_CT_ZONE_MARK) != 0) {
    return std::nullopt;
  }
  const bool is_of_requests_only =
      (head.flags & (XT_CT_ZONE_DIR_ORIG | XT_CT_ZONE_DIR_REPL)) == XT_CT_ZONE_DIR_ORIG;
  return is_of_requests_only ? std::uint16_t{0} : head.zone;
}

bool IsNotrack(const Expression& target) {
  const std::string name = TextOf(target, NFTNL_EXPR_TG_NAME);
  return name == "NOTRACK" ||
         (name == "CT" &&
          (InfoOf<TargetHead>(target, NFTNL_EXPR_TG_INFO).flags & XT_CT_NOTRACK) != 0);
}

std::optional<std::uint16_t> PortOfRedirect(const Packet& packet, const Expression& target) {
  const bool is_ipv4 = packet.family == Family::kIpv4;
  const std::size_t flags = is_ipv4 ? offsetof(nf_nat_ipv4_multi_range_compat, range) : 0;
  const std::size_t port =
      is_ipv4 ? flags + offsetof(nf_nat_ipv4_range, min) : offsetof(nf_nat_range, min_proto);
  const Bytes info = BytesOf(target, NFTNL_EXPR_TG_INFO);
  if (info.size() < port + 2) {
    return std::nullopt;
  }
  return (info[flags] & NF_NAT_RANGE_PROTO_SPECIFIED) == 0 ? packet.destination_port
                                                           : PortIn(info[port], info[port + 1]);
}

std::optional<Ip> SourceOfSnat(const Packet& packet, const Expression& target) {
  const bool is_ipv4 = packet.family == Family::kIpv4;
  const std::size_t size = is_ipv4 ? 4 : 16;
  const std::size_t least = is_ipv4 ? offsetof(nf_nat_ipv4_multi_range_compat, range) +
                                          offsetof(nf_nat_ipv4_range, min_ip)
                                    : offsetof(nf_nat_range, min_addr);
  const Bytes info = BytesOf(target, NFTNL_EXPR_TG_INFO);
  if (info.size() < least + 2 * size) {
    return std::nullopt;
  }
  const std::span<const std::uint8_t> all(info);
  const bool is_one = std::ranges::equal(all.subspan(least, size), all.subspan(least + size, size));
  return is_one ? std::optional(Ip(all.subspan(least, size))) : std::nullopt;
}

}  // namespace nomad_bridge::nft
