#include "netlink/nft/xt_nat.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include <linux/netfilter.h>
#include <linux/netfilter/nf_nat.h>

#include "netlink/core/handles.h"
#include "netlink/nft/packet_fields.h"

namespace nomad_bridge::nft {

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
