#include "netlink/conntrack/conntrack.h"

#include <algorithm>
#include <cerrno>

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/text.h"
#include "netlink/core/message.h"

namespace nomad_bridge::conntrack {
namespace {

// Which parts of the tuple CTA_FILTER compares. The kernel keeps these bits in
// net/netfilter/nf_internals.h, not in its public headers.
constexpr std::uint32_t kFilterDestinationAddress = 1U << 1;
constexpr std::uint32_t kFilterProtocol = 1U << 3;
constexpr std::uint32_t kFilterDestinationPort = 1U << 5;

netlink::Message ConntrackMessage(int type, int flags, Family family) {
  return netlink::NetfilterMessage(
      NFNL_SUBSYS_CTNETLINK, type, flags, family == Family::kIpv4 ? AF_INET : AF_INET6);
}

// What of an entry's original direction is compared, and with what.
void PutFilter(netlink::Message& message,
               std::optional<std::uint16_t> port,
               const std::optional<Ip>& ipv4) {
  {
    const netlink::Nest tuple(message, CTA_TUPLE_ORIG);
    if (ipv4) {
      const netlink::Nest addresses(message, CTA_TUPLE_IP);
      message.PutBytes(CTA_IP_V4_DST, ipv4->bytes());
    }
    const netlink::Nest protocol(message, CTA_TUPLE_PROTO);
    message.PutU8(CTA_PROTO_NUM, IPPROTO_UDP);
    if (port) {
      message.PutU16Be(CTA_PROTO_DST_PORT, *port);
    }
  }
  const netlink::Nest filter(message, CTA_FILTER);
  message.PutU32(CTA_FILTER_ORIG_FLAGS,
                 kFilterProtocol | (port ? kFilterDestinationPort : 0) |
                     (ipv4 ? kFilterDestinationAddress : 0));
}

// conntrack -D -f <family> -p udp --orig-port-dst <port> [--orig-dst <address>]. False if the
// kernel cannot.
bool Flush(netlink::RequestSocket& socket, const UdpPort& port) {
  // The kernel compares IPv6 addresses the wrong way round (still in 6.18): it would delete the
  // flows of all other addresses.
  if (port.address && !port.address->is_ipv4()) {
    return false;
  }
  netlink::Message message = ConntrackMessage(IPCTNL_MSG_CT_DELETE, NLM_F_ACK, port.family);
  // Kernels before 6.11 ignore CTA_FILTER on delete and reject the partial tuple: EINVAL, never
  // "delete all".
  PutFilter(message, port.port, port.address);
  const netlink::Reply reply = socket.TransactOrThrow(
      message,
      Cat("cannot remove the UDP flows to port ", port.port, " from conntrack"),
      {EINVAL, EOPNOTSUPP, ENOENT});
  return reply.error == 0 || reply.error == ENOENT;
}

// Whether `entry` is a UDP flow towards one of `ports`.
bool Matches(const netlink::Attributes& entry, const std::vector<UdpPort>& ports) {
  const netlink::Attributes tuple = entry.Inside(CTA_TUPLE_ORIG);
  const netlink::Attributes protocol = tuple.Inside(CTA_TUPLE_PROTO);
  const netlink::Attributes addresses = tuple.Inside(CTA_TUPLE_IP);
  if (protocol.U8(CTA_PROTO_NUM) != IPPROTO_UDP) {
    return false;
  }
  std::span<const std::uint8_t> destination = addresses.Bytes(CTA_IP_V4_DST);
  if (destination.empty()) {
    destination = addresses.Bytes(CTA_IP_V6_DST);
  }
  const std::optional<std::uint16_t> port = protocol.U16Be(CTA_PROTO_DST_PORT);
  return std::ranges::any_of(ports, [&](const UdpPort& wanted) {
    return wanted.port == port &&
           (!wanted.address || std::ranges::equal(wanted.address->bytes(), destination));
  });
}

// Deletes exactly this entry: its id keeps us from hitting a new flow between the same ends.
void Forget(netlink::RequestSocket& socket, Family family, const netlink::Attributes& entry) {
  netlink::Message message = ConntrackMessage(IPCTNL_MSG_CT_DELETE, NLM_F_ACK, family);
  for (const int attribute : {CTA_TUPLE_ORIG, CTA_ID, CTA_ZONE}) {
    const std::span<const std::uint8_t> value = entry.Bytes(attribute);
    if (!value.empty()) {
      message.PutBytes(attribute == CTA_TUPLE_ORIG ? NLA_F_NESTED | attribute : attribute, value);
    }
  }
  socket.TransactOrThrow(
      message, "cannot remove a stale UDP entry from conntrack", {ENOENT, EBUSY});
}

// `ports` are all of `family`.
void ForgetIn(netlink::RequestSocket& socket, Family family, const std::vector<UdpPort>& ports) {
  if (ports.empty()) {
    return;
  }
  // One walk for all ports, narrowed further if there is only one.
  const bool same_port = std::ranges::all_of(
      ports, [&](const UdpPort& other) { return other.port == ports.front().port; });
  netlink::Message request = ConntrackMessage(IPCTNL_MSG_CT_GET, NLM_F_DUMP, family);
  PutFilter(request, same_port ? std::optional(ports.front().port) : std::nullopt, std::nullopt);
  // EINVAL: this kernel has no conntrack, or not over netlink.
  const netlink::Reply reply =
      socket.TransactOrThrow(request, "cannot list UDP entries of conntrack", {EINVAL});
  netlink::ForEachMessage<nfgenmsg>(reply, [&](const auto&, const netlink::Attributes& entry) {
    if (Matches(entry, ports)) {
      Forget(socket, family, entry);
    }
  });
}

}  // namespace

Conntrack Conntrack::In(const netlink::Netns& ns) {
  return Conntrack(netlink::RequestSocket::In(ns, NETLINK_NETFILTER));
}

void Conntrack::ForgetUdpFlows(const std::vector<UdpPort>& ports) {
  std::vector<UdpPort> left = ports;
  std::erase_if(left, [&](const UdpPort& port) { return Flush(socket_, port); });
  ForgetUdpFlowsOneByOne(left);
}

void Conntrack::ForgetUdpFlowsOneByOne(const std::vector<UdpPort>& ports) {
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    std::vector<UdpPort> of_family = ports;
    std::erase_if(of_family, [&](const UdpPort& port) { return port.family != family; });
    ForgetIn(socket_, family, of_family);
  }
}

}  // namespace nomad_bridge::conntrack
