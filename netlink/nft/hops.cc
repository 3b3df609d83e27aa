#include "netlink/nft/hops.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4/ipt_TTL.h>

#include "netlink/core/handles.h"
#include "netlink/nft/packet_fields.h"

namespace nomad_bridge::nft {

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

}  // namespace nomad_bridge::nft
