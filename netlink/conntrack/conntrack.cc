#include "netlink/conntrack/conntrack.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <set>
#include <span>

#include <endian.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_tcp.h>
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
constexpr std::uint32_t kFilterSourceAddress = 1U << 0;
constexpr std::uint32_t kFilterDestinationAddress = 1U << 1;
constexpr std::uint32_t kFilterProtocol = 1U << 3;
constexpr std::uint32_t kFilterDestinationPort = 1U << 5;

// For more UdpFlows than this, one list of all entries is faster than a walk of the table for each.
constexpr std::size_t kMaxWalks = 64;

// Entries whose status bits in `mask` equal `value`.
struct Status {
  std::uint32_t mask = 0;
  std::uint32_t value = 0;
};

// One per enumerator of Which, in its order.
constexpr std::array<Status, 4> kStatuses = {{{},
                                              {.mask = IPS_NAT_MASK},
                                              {.mask = IPS_NAT_MASK | IPS_SEEN_REPLY},
                                              {.mask = IPS_DST_NAT, .value = IPS_DST_NAT}}};

netlink::Message ConntrackMessage(int type, int flags, Family family) {
  return netlink::NetfilterMessage(
      NFNL_SUBSYS_CTNETLINK, type, flags, family == Family::kIpv4 ? AF_INET : AF_INET6);
}

// Puts the parts of one direction's tuple that are compared. Addresses are IPv4.
void PutTuple(netlink::Message& message,
              int direction,
              const std::optional<Ip>& source,
              const std::optional<Ip>& destination,
              const std::optional<std::uint16_t>& port) {
  const netlink::Nest tuple(message, direction);
  if (source || destination) {
    const netlink::Nest addresses(message, CTA_TUPLE_IP);
    if (source) {
      message.PutBytes(CTA_IP_V4_SRC, source->bytes());
    }
    if (destination) {
      message.PutBytes(CTA_IP_V4_DST, destination->bytes());
    }
  }
  const netlink::Nest protocol(message, CTA_TUPLE_PROTO);
  message.PutU8(CTA_PROTO_NUM, IPPROTO_UDP);
  if (port) {
    message.PutU16(CTA_PROTO_DST_PORT, htobe16(*port));
  }
}

// Puts the filter: which parts of an entry the kernel compares, and with which values.
void PutFilter(netlink::Message& message, const UdpFlows& flows) {
  if (flows.answered_by) {
    PutTuple(message, CTA_TUPLE_REPLY, flows.answered_by, std::nullopt, std::nullopt);
  } else {
    PutTuple(message, CTA_TUPLE_ORIG, flows.source, flows.destination, flows.port);
  }
  const netlink::Nest filter(message, CTA_FILTER);
  message.PutU32(flows.answered_by ? CTA_FILTER_REPLY_FLAGS : CTA_FILTER_ORIG_FLAGS,
                 kFilterProtocol | (flows.port ? kFilterDestinationPort : 0) |
                     (flows.source || flows.answered_by ? kFilterSourceAddress : 0) |
                     (flows.destination ? kFilterDestinationAddress : 0));
}

// Deletes the matching entries: conntrack -D -f <family> -p udp [--orig-src <address>] [--orig-dst
// <address>] [--orig-port-dst <port>] [--reply-src <address>]. Returns false if this kernel cannot
// delete them by filter.
bool Flush(netlink::RequestSocket& socket, const UdpFlows& flows) {
  // The kernel compares IPv6 addresses the wrong way round (still in 6.18): it would delete the
  // flows of all other addresses.
  if (flows.family == Family::kIpv6 && (flows.source || flows.destination || flows.answered_by)) {
    return false;
  }
  netlink::Message message = ConntrackMessage(IPCTNL_MSG_CT_DELETE, NLM_F_ACK, flows.family);
  // Kernels before 6.11 ignore CTA_FILTER on delete and reject the partial tuple: EINVAL, never
  // "delete all".
  PutFilter(message, flows);
  const Status& status = kStatuses.at(static_cast<std::size_t>(flows.which));
  if (status.mask != 0) {
    message.PutU32(CTA_STATUS, htobe32(status.value));
    message.PutU32(CTA_STATUS_MASK, htobe32(status.mask));
  }
  const netlink::Reply reply = socket.TransactOrThrow(
      message, "cannot remove stale UDP flows from conntrack", {EINVAL, EOPNOTSUPP, ENOENT});
  return reply.error == 0 || reply.error == ENOENT;
}

std::optional<Ip> ReadAddress(const netlink::Attributes& addresses, int ipv4, int ipv6) {
  const std::optional<Ip> address = addresses.Address(ipv4);
  return address ? address : addresses.Address(ipv6);
}

// Returns whether any of `flows` matches `entry`. Callers set the members of UdpFlows in five
// combinations only, so one lookup per combination is enough.
bool IsIn(const std::set<UdpFlows>& flows, const netlink::Attributes& entry, Family family) {
  const auto address = [&](int direction, int ipv4, int ipv6) {
    return ReadAddress(entry.Inside(direction).Inside(CTA_TUPLE_IP), ipv4, ipv6);
  };
  const std::optional<Ip> source = address(CTA_TUPLE_ORIG, CTA_IP_V4_SRC, CTA_IP_V6_SRC);
  const std::optional<Ip> destination = address(CTA_TUPLE_ORIG, CTA_IP_V4_DST, CTA_IP_V6_DST);
  const std::optional<Ip> answered_by = address(CTA_TUPLE_REPLY, CTA_IP_V4_SRC, CTA_IP_V6_SRC);
  const std::optional<std::uint16_t> port =
      entry.Inside(CTA_TUPLE_ORIG).Inside(CTA_TUPLE_PROTO).U16Be(CTA_PROTO_DST_PORT);
  const std::uint32_t status = be32toh(entry.U32(CTA_STATUS).value_or(0));
  const std::array<UdpFlows, 5> forms = {
      UdpFlows{.family = family, .source = source},
      UdpFlows{.family = family, .port = port},
      UdpFlows{.family = family, .destination = destination, .port = port},
      UdpFlows{.family = family, .source = source, .destination = destination, .port = port},
      UdpFlows{.family = family, .answered_by = answered_by}};
  return std::ranges::any_of(forms, [&](UdpFlows form) {
    for (std::size_t which = 0; which < kStatuses.size(); ++which) {
      form.which = static_cast<Which>(which);
      const auto& [mask, value] = kStatuses.at(which);
      if ((status & mask) == value && flows.contains(form)) {
        return true;
      }
    }
    return false;
  });
}

// Returns a message that names this entry.
netlink::Message MessageOf(int type, Family family, const netlink::Attributes& entry) {
  netlink::Message message = ConntrackMessage(type, NLM_F_ACK, family);
  for (const int attribute : {CTA_TUPLE_ORIG, CTA_ID, CTA_ZONE}) {
    const std::span<const std::uint8_t> value = entry.Bytes(attribute);
    if (!value.empty()) {
      message.PutBytes(attribute == CTA_TUPLE_ORIG ? NLA_F_NESTED | attribute : attribute, value);
    }
  }
  return message;
}

// Deletes exactly this entry: its id keeps us from hitting a new flow between the same ends.
void ForgetEntry(netlink::RequestSocket& socket, Family family, const netlink::Attributes& entry) {
  socket.TransactOrThrow(MessageOf(IPCTNL_MSG_CT_DELETE, family, entry),
                         "cannot remove an entry from conntrack",
                         {ENOENT, EBUSY});
}

void ForgetIn(netlink::RequestSocket& socket, Family family, const std::set<UdpFlows>& flows) {
  netlink::Message request = ConntrackMessage(IPCTNL_MSG_CT_GET, NLM_F_DUMP, family);
  PutFilter(request, {.family = family});
  // EINVAL: this kernel has no conntrack, or not over netlink.
  const netlink::Reply reply =
      socket.TransactOrThrow(request, "cannot list UDP entries of conntrack", {EINVAL});
  netlink::ForEachMessage<nfgenmsg>(reply, [&](const auto&, const netlink::Attributes& entry) {
    // Kernels before 5.8 list all protocols.
    const netlink::Attributes protocol = entry.Inside(CTA_TUPLE_ORIG).Inside(CTA_TUPLE_PROTO);
    if (protocol.U8(CTA_PROTO_NUM) == IPPROTO_UDP && IsIn(flows, entry, family)) {
      ForgetEntry(socket, family, entry);
    }
  });
}

// Returns the endpoint that answers, which is the one that the packets reach after translation.
Endpoint ReadAnswerer(const netlink::Attributes& entry) {
  const netlink::Attributes tuple = entry.Inside(CTA_TUPLE_REPLY);
  const netlink::Attributes protocol = tuple.Inside(CTA_TUPLE_PROTO);
  return {.protocol = protocol.U8(CTA_PROTO_NUM).value_or(0),
          .address =
              ReadAddress(tuple.Inside(CTA_TUPLE_IP), CTA_IP_V4_SRC, CTA_IP_V6_SRC).value_or(Ip()),
          .port = protocol.U16Be(CTA_PROTO_SRC_PORT).value_or(0)};
}

Connection ReadConnection(const netlink::Attributes& entry) {
  const Endpoint to = ReadAnswerer(entry);
  const netlink::Attributes begun = entry.Inside(CTA_TUPLE_ORIG);
  const Ip from =
      ReadAddress(begun.Inside(CTA_TUPLE_IP), CTA_IP_V4_SRC, CTA_IP_V6_SRC).value_or(Ip());
  const std::uint16_t from_port =
      begun.Inside(CTA_TUPLE_PROTO).U16Be(CTA_PROTO_SRC_PORT).value_or(0);
  // Conntrack missed the beginning and saw a packet of the server first: swap the ends.
  if (to.protocol == IPPROTO_TCP && from_port < kFirstClientPort && to.port >= kFirstClientPort) {
    return {.protocol = to.protocol, .from = to.address, .to = from, .port = from_port};
  }
  return {.protocol = to.protocol, .from = from, .to = to.address, .port = to.port};
}

std::uint8_t TcpStateOf(const netlink::Attributes& entry) {
  return entry.Inside(CTA_PROTOINFO)
      .Inside(CTA_PROTOINFO_TCP)
      .U8(CTA_PROTOINFO_TCP_STATE)
      .value_or(TCP_CONNTRACK_NONE);
}

void PutTuple(netlink::Message& message, const Beginning& packet) {
  const netlink::Nest tuple(message, CTA_TUPLE_ORIG);
  {
    const bool is_ipv4 = packet.source.is_ipv4();
    const netlink::Nest addresses(message, CTA_TUPLE_IP);
    message.PutBytes(is_ipv4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC, packet.source.bytes());
    message.PutBytes(is_ipv4 ? CTA_IP_V4_DST : CTA_IP_V6_DST, packet.destination.bytes());
  }
  const netlink::Nest protocol(message, CTA_TUPLE_PROTO);
  message.PutU8(CTA_PROTO_NUM, packet.protocol);
  message.PutU16(CTA_PROTO_SRC_PORT, htobe16(packet.source_port));
  message.PutU16(CTA_PROTO_DST_PORT, htobe16(packet.destination_port));
}

// Calls `read` with every entry of the family.
void ForEachEntry(netlink::RequestSocket& socket,
                  Family family,
                  const std::function<void(const netlink::Attributes&)>& read) {
  const netlink::Message request = ConntrackMessage(IPCTNL_MSG_CT_GET, NLM_F_DUMP, family);
  const netlink::Reply reply =
      socket.TransactOrThrow(request, "cannot list the entries of conntrack", {EINVAL});
  netlink::ForEachMessage<nfgenmsg>(
      reply, [&](const auto&, const netlink::Attributes& entry) { read(entry); });
}

}  // namespace

Conntrack Conntrack::In(const netlink::Netns& ns) {
  return Conntrack(netlink::RequestSocket::In(ns, NETLINK_NETFILTER));
}

std::vector<std::size_t> Conntrack::CountAnsweredBy(const std::vector<Endpoint>& endpoints) {
  std::vector<std::size_t> counts(endpoints.size());
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    ForEachEntry(socket_, family, [&](const netlink::Attributes& entry) {
      const std::uint8_t tcp_state = TcpStateOf(entry);
      if (tcp_state == TCP_CONNTRACK_TIME_WAIT || tcp_state == TCP_CONNTRACK_CLOSE) {
        return;  // has ended
      }
      const Endpoint source = ReadAnswerer(entry);
      for (std::size_t i = 0; i < endpoints.size(); ++i) {
        counts[i] += endpoints[i] == source ? 1 : 0;
      }
    });
  }
  return counts;
}

std::optional<std::uint32_t> Conntrack::FindId(const Beginning& packet) {
  netlink::Message request = ConntrackMessage(IPCTNL_MSG_CT_GET, 0, packet.source.family());
  PutTuple(request, packet);
  std::optional<std::uint32_t> id;
  netlink::ForEachMessage<nfgenmsg>(
      socket_.TransactOrThrow(request, "cannot look up an entry of conntrack", {ENOENT, EINVAL}),
      [&](const auto&, const netlink::Attributes& entry) {
        id = be32toh(entry.U32(CTA_ID).value_or(0));
      });
  return id;
}

void Conntrack::Forget(const Beginning& packet, std::uint32_t id) {
  netlink::Message request =
      ConntrackMessage(IPCTNL_MSG_CT_DELETE, NLM_F_ACK, packet.source.family());
  PutTuple(request, packet);
  request.PutU32(CTA_ID, htobe32(id));
  socket_.TransactOrThrow(request, "cannot delete an entry of conntrack", {ENOENT, EINVAL, EBUSY});
}

std::vector<Conntrack::Entry> Conntrack::All() {
  std::vector<Entry> all;
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    ForEachEntry(socket_, family, [&](const netlink::Attributes& entry) {
      const std::span<const std::uint8_t> id = entry.Bytes(CTA_ID);
      all.push_back({.id = {id.begin(), id.end()}, .connection = ReadConnection(entry)});
    });
  }
  return all;
}

void Conntrack::Forget(const std::vector<UdpFlows>& flows) {
  std::vector<UdpFlows> left = flows;
  if (flows.size() <= kMaxWalks) {
    std::erase_if(left, [&](const UdpFlows& each) { return Flush(socket_, each); });
  }
  ForgetOneByOne(left);
}

void Conntrack::ForgetOneByOne(const std::vector<UdpFlows>& flows) {
  const std::set<UdpFlows> all(flows.begin(), flows.end());
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    if (std::ranges::find(flows, family, &UdpFlows::family) != flows.end()) {
      ForgetIn(socket_, family, all);
    }
  }
}

}  // namespace nomad_bridge::conntrack
