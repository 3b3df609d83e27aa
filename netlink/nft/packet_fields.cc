#include "netlink/nft/packet_fields.h"

#include <arpa/inet.h>  // before the kernel's own in.h, which gives way to it
#include <linux/if.h>
#include <linux/if_ether.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/xt_addrtype.h>
#include <linux/netfilter/xt_conntrack.h>
#include <linux/netfilter/xt_devgroup.h>
#include <linux/netfilter/xt_multiport.h>
#include <linux/netfilter/xt_tcpudp.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <linux/rtnetlink.h>

#include "netlink/core/handles.h"

namespace nomad_bridge::nft {
namespace {

// The kernel clears as much of what follows as a register of the largest kind has.
constexpr std::size_t kLargest = 16;

template <typename Wanted>
const Wanted* Find(const Expression& expression, std::uint16_t number) {
  for (const auto& [attribute, value] : expression.attributes) {
    if (attribute == number) {
      return std::get_if<Wanted>(&value);
    }
  }
  return nullptr;
}

template <typename Number>
PartialBytes Of(Number number) {
  Bytes bytes(sizeof number);
  std::memcpy(bytes.data(), &number, sizeof number);
  return Known(bytes);
}

PartialBytes Of(const KnownBits& bits) {
  const PartialBytes value = Of(bits.value);
  const PartialBytes known = Of(bits.known);
  PartialBytes field(value.size());
  for (std::size_t i = 0; i < field.size(); ++i) {
    field[i] = {.value = value[i].value, .known = known[i].value};
  }
  return field;
}

PartialBytes OfName(const std::string& name) {
  if (name.empty()) {
    return Unknown(IFNAMSIZ);
  }
  Bytes bytes(name.begin(), name.end());
  bytes.resize(IFNAMSIZ);
  return Known(bytes);
}

PartialBytes OfIndex(int index) {
  return index == 0 ? Unknown(sizeof index) : Of(index);
}

PartialBytes OfGroup(std::optional<std::uint32_t> group) {
  return group ? Of(*group) : Unknown(sizeof *group);
}

void Put(PartialBytes& header, std::size_t offset, std::span<const std::uint8_t> bytes) {
  const PartialBytes known = Known(bytes);
  std::ranges::copy(known, header.begin() + static_cast<std::ptrdiff_t>(offset));
}

void PutU16(PartialBytes& header, std::size_t offset, std::optional<std::uint16_t> number) {
  if (number) {
    Put(header,
        offset,
        Bytes{static_cast<std::uint8_t>(*number >> 8), static_cast<std::uint8_t>(*number & 0xff)});
  }
}

std::uint16_t EtherTypeOf(const Packet& packet) {
  return htons(packet.arp_operation             ? ETH_P_ARP
               : packet.family == Family::kIpv4 ? ETH_P_IP
                                                : ETH_P_IPV6);
}

// About IPv4 on Ethernet.
PartialBytes ArpHeader(const Packet& packet) {
  constexpr std::size_t kBytes = 28;
  constexpr std::size_t kOperation = 6;
  constexpr std::size_t kSource = 14;
  constexpr std::size_t kDestination = 24;
  PartialBytes header = Unknown(kBytes);
  Put(header, 0, Bytes{0, 1, 8, 0, 6, 4});
  PutU16(header, kOperation, packet.arp_operation);
  if (packet.source) {
    Put(header, kSource, packet.source->bytes());
  }
  if (packet.destination) {
    Put(header, kDestination, packet.destination->bytes());
  }
  return header;
}

PartialBytes NetworkHeader(const Packet& packet) {
  if (packet.arp_operation) {
    return ArpHeader(packet);
  }
  const bool is_ipv4 = packet.family == Family::kIpv4;
  PartialBytes header = Unknown(is_ipv4 ? 20 : 40);
  if (packet.protocol != 0) {
    Put(header, is_ipv4 ? 9 : 6, Bytes{packet.protocol});
  }
  if (packet.source) {
    Put(header, is_ipv4 ? 12 : 8, packet.source->bytes());
  }
  if (packet.destination) {
    Put(header, is_ipv4 ? 16 : 24, packet.destination->bytes());
  }
  return header;
}

PartialBytes TransportHeader(const Packet& packet) {
  constexpr std::size_t kTcpFlags = 13;
  PartialBytes header = Unknown(kTcpFlags + 1);
  PutU16(header, 0, packet.source_port);
  PutU16(header, 2, packet.destination_port);
  if (packet.icmp6_type) {
    Put(header, 0, Bytes{*packet.icmp6_type});
  }
  if (packet.tcp_flags) {
    Put(header, kTcpFlags, Bytes{*packet.tcp_flags});
  }
  return header;
}

PartialBytes LinkHeader(const Packet& packet) {
  PartialBytes header = Unknown(ETH_HLEN);
  const std::uint16_t type = EtherTypeOf(packet);
  std::ranges::copy(Of(type), header.end() - sizeof type);
  return header;
}

PartialBytes Payload(const Packet& packet, const Expression& expression) {
  const std::uint32_t base = NumberOf(expression, NFTNL_EXPR_PAYLOAD_BASE);
  const std::size_t offset = NumberOf(expression, NFTNL_EXPR_PAYLOAD_OFFSET);
  const std::size_t size = NumberOf(expression, NFTNL_EXPR_PAYLOAD_LEN);
  PartialBytes field = base == NFT_PAYLOAD_NETWORK_HEADER     ? NetworkHeader(packet)
                       : base == NFT_PAYLOAD_TRANSPORT_HEADER ? TransportHeader(packet)
                       : base == NFT_PAYLOAD_LL_HEADER        ? LinkHeader(packet)
                                                              : Unknown(0);
  field.resize(std::max(field.size(), offset + size));
  return {field.begin() + static_cast<std::ptrdiff_t>(offset),
          field.begin() + static_cast<std::ptrdiff_t>(offset + size)};
}

std::uint8_t ProtocolFamily(const Packet& packet, TableFamily family) {
  return family == TableFamily::kBridge || family == TableFamily::kNetdev
             ? static_cast<std::uint8_t>(family)
         : packet.arp_operation           ? std::uint8_t{NFPROTO_ARP}
         : packet.family == Family::kIpv4 ? std::uint8_t{NFPROTO_IPV4}
                                          : std::uint8_t{NFPROTO_IPV6};
}

PartialBytes Meta(const Packet& packet, TableFamily family, std::uint32_t key) {
  switch (key) {
    case NFT_META_NFPROTO:
      return Of(ProtocolFamily(packet, family));
    case NFT_META_L4PROTO:
      return packet.protocol == 0 ? Unknown(1) : Of(packet.protocol);
    case NFT_META_PROTOCOL:
      return Of(EtherTypeOf(packet));
    case NFT_META_MARK:
      return Of(packet.mark);
    case NFT_META_IIFNAME:
      return OfName(packet.iifname);
    case NFT_META_OIFNAME:
      return OfName(packet.oifname);
    case NFT_META_IIF:
      return OfIndex(packet.iif);
    case NFT_META_OIF:
      return OfIndex(packet.oif);
    case NFT_META_IIFGROUP:
      return OfGroup(packet.iif_group);
    case NFT_META_OIFGROUP:
      return OfGroup(packet.oif_group);
    default:
      return Unknown(kLargest);
  }
}

PartialBytes Conntrack(const Packet& packet, std::uint32_t key) {
  return key == NFT_CT_STATE    ? Of(packet.ct_state)
         : key == NFT_CT_STATUS ? Of(packet.ct_status)
         : key == NFT_CT_MARK   ? Of(packet.ct_mark)
                                : Unknown(kLargest);
}

PartialBytes RouteType(const Packet& packet, const Expression& expression) {
  const bool is_of_destination =
      (NumberOf(expression, NFTNL_EXPR_FIB_FLAGS) & NFTA_FIB_F_DADDR) != 0;
  if (NumberOf(expression, NFTNL_EXPR_FIB_RESULT) != NFT_FIB_RESULT_ADDRTYPE ||
      !is_of_destination || !packet.is_local) {
    return Unknown(kLargest);
  }
  return Of(std::uint32_t{*packet.is_local ? RTN_LOCAL : RTN_UNICAST});
}

// ---- xt matches

Match IsWithin(std::optional<std::uint16_t> port, std::uint16_t first, std::uint16_t last) {
  if (first == 0 && last == 0xffff) {
    return Match::kYes;
  }
  return !port ? Match::kMaybe : *port >= first && *port <= last ? Match::kYes : Match::kNo;
}

Match Inverted(Match match, bool is_inverted) {
  return is_inverted ? Not(match) : match;
}

Match MatchTcp(const Packet& packet, const xt_tcp& info) {
  const bool asks_more = info.option != 0 || info.flg_mask != 0;
  return std::min({Inverted(IsWithin(packet.source_port, info.spts[0], info.spts[1]),
                            (info.invflags & XT_TCP_INV_SRCPT) != 0),
                   Inverted(IsWithin(packet.destination_port, info.dpts[0], info.dpts[1]),
                            (info.invflags & XT_TCP_INV_DSTPT) != 0),
                   asks_more ? Match::kMaybe : Match::kYes});
}

Match MatchUdp(const Packet& packet, const xt_udp& info) {
  return std::min(Inverted(IsWithin(packet.source_port, info.spts[0], info.spts[1]),
                           (info.invflags & XT_UDP_INV_SRCPT) != 0),
                  Inverted(IsWithin(packet.destination_port, info.dpts[0], info.dpts[1]),
                           (info.invflags & XT_UDP_INV_DSTPT) != 0));
}

Match MatchIcmp6(const Packet& packet, const ip6t_icmp& info) {
  const bool asks_code = info.code[0] != 0 || info.code[1] != 0xff;
  if (!packet.icmp6_type || asks_code) {
    return Match::kMaybe;
  }
  return Inverted(*packet.icmp6_type == info.type ? Match::kYes : Match::kNo,
                  (info.invflags & IP6T_ICMP_INV) != 0);
}

Match MatchMultiport(const Packet& packet, const xt_multiport_v1& info) {
  const bool of_source = info.flags == XT_MULTIPORT_SOURCE;
  if (!of_source && info.flags != XT_MULTIPORT_DESTINATION) {
    return Match::kMaybe;
  }
  const std::span<const __u16> ports(info.ports);
  const std::span<const __u8> begins_range(info.pflags);
  Match match = Match::kNo;
  for (std::size_t i = 0; i < info.count && i < ports.size(); ++i) {
    const std::uint16_t first = ports[i];
    const bool is_range = begins_range[i] != 0 && i + 1 < ports.size();
    i += is_range ? 1 : 0;
    match = std::max(
        match, IsWithin(of_source ? packet.source_port : packet.destination_port, first, ports[i]));
  }
  return Inverted(match, info.invert != 0);
}

// Of what `-m conntrack` and `-m state` ask for, the states: numbered as nf_tables'.
Match MatchConntrack(const Packet& packet, const xt_conntrack_mtinfo3& info) {
  constexpr std::uint32_t kStates = 0x7f;
  constexpr unsigned kSpelled = XT_CONNTRACK_STATE_ALIAS;  // as -m state: it asks for nothing
  if ((info.match_flags & ~kSpelled) != XT_CONNTRACK_STATE || (info.state_mask & ~kStates) != 0) {
    return Match::kMaybe;
  }
  const bool may = (info.state_mask & (packet.ct_state.value | ~packet.ct_state.known)) != 0;
  const bool does = (info.state_mask & packet.ct_state.value) != 0;
  return Inverted(does  ? Match::kYes
                  : may ? Match::kMaybe
                        : Match::kNo,
                  (info.invert_flags & XT_CONNTRACK_STATE) != 0);
}

// Whether the destination is the node's own, as Docker's rules ask.
Match MatchAddressType(const Packet& packet, const xt_addrtype_info_v1& info) {
  constexpr std::uint32_t kKnown = XT_ADDRTYPE_INVERT_SOURCE | XT_ADDRTYPE_INVERT_DEST;
  if (info.source != 0 || (info.flags & ~kKnown) != 0 || !packet.is_local) {
    return Match::kMaybe;
  }
  const unsigned type = *packet.is_local ? XT_ADDRTYPE_LOCAL : XT_ADDRTYPE_UNICAST;
  return Inverted(info.dest == 0 || (info.dest & type) != 0 ? Match::kYes : Match::kNo,
                  (info.flags & XT_ADDRTYPE_INVERT_DEST) != 0);
}

Match IsInGroup(std::optional<std::uint32_t> group, std::uint32_t wanted, std::uint32_t mask) {
  return !group ? Match::kMaybe : (*group & mask) == wanted ? Match::kYes : Match::kNo;
}

Match MatchGroups(const Packet& packet, const xt_devgroup_info& info) {
  const auto asks = [&](unsigned flag) { return (info.flags & flag) != 0; };
  const Match in = Inverted(IsInGroup(packet.iif_group, info.src_group, info.src_mask),
                            asks(XT_DEVGROUP_INVERT_SRC));
  const Match out = Inverted(IsInGroup(packet.oif_group, info.dst_group, info.dst_mask),
                             asks(XT_DEVGROUP_INVERT_DST));
  return std::min(asks(XT_DEVGROUP_MATCH_SRC) ? in : Match::kYes,
                  asks(XT_DEVGROUP_MATCH_DST) ? out : Match::kYes);
}

template <typename Info>
Match MatchBy(Match (*function)(const Packet&, const Info&),
              const Packet& packet,
              const Expression& expression) {
  const std::optional<Info> info = FindInfo<Info>(expression, NFTNL_EXPR_MT_INFO);
  return info ? function(packet, *info) : Match::kMaybe;
}

}  // namespace

std::uint32_t NumberOf(const Expression& expression, std::uint16_t number) {
  const auto* const found = Find<std::uint32_t>(expression, number);
  return found == nullptr ? 0 : *found;
}

std::string TextOf(const Expression& expression, std::uint16_t number) {
  const auto* const found = Find<std::string>(expression, number);
  return found == nullptr ? "" : *found;
}

Bytes BytesOf(const Expression& expression, std::uint16_t number) {
  const auto* const found = Find<Bytes>(expression, number);
  return found == nullptr ? Bytes() : *found;
}

bool Has(const Expression& expression, std::uint16_t number) {
  return std::ranges::any_of(expression.attributes,
                             [&](const auto& each) { return each.first == number; });
}

bool HasField(const Packet& packet, const Expression& expression) {
  const bool is_of_transport =
      expression.kind == "payload"
          ? NumberOf(expression, NFTNL_EXPR_PAYLOAD_BASE) == NFT_PAYLOAD_TRANSPORT_HEADER
          : expression.kind == "meta" &&
                NumberOf(expression, NFTNL_EXPR_META_KEY) == NFT_META_L4PROTO;
  return !packet.arp_operation || !is_of_transport;
}

PartialBytes FieldOf(const Packet& packet, TableFamily family, const Expression& expression) {
  if (expression.kind == "payload") {
    return Payload(packet, expression);
  }
  if (expression.kind == "meta") {
    return Meta(packet, family, NumberOf(expression, NFTNL_EXPR_META_KEY));
  }
  return expression.kind == "ct" ? Conntrack(packet, NumberOf(expression, NFTNL_EXPR_CT_KEY))
                                 : RouteType(packet, expression);
}

Match MatchExtension(const Packet& packet, const Expression& expression) {
  const std::string name = TextOf(expression, NFTNL_EXPR_MT_NAME);
  const std::uint32_t revision = NumberOf(expression, NFTNL_EXPR_MT_REV);
  if (name == "comment") {
    return Match::kYes;
  }
  if (name == "tcp" && revision == 0) {
    return MatchBy(MatchTcp, packet, expression);
  }
  if (name == "udp" && revision == 0) {
    return MatchBy(MatchUdp, packet, expression);
  }
  if (name == "icmp6" && revision == 0) {
    return MatchBy(MatchIcmp6, packet, expression);
  }
  if (name == "multiport" && revision == 1) {
    return MatchBy(MatchMultiport, packet, expression);
  }
  if (name == "addrtype" && revision == 1) {
    return MatchBy(MatchAddressType, packet, expression);
  }
  if (name == "devgroup" && revision == 0) {
    return MatchBy(MatchGroups, packet, expression);
  }
  return name == "conntrack" && revision == 3 ? MatchBy(MatchConntrack, packet, expression)
                                              : Match::kMaybe;
}

}  // namespace nomad_bridge::nft
