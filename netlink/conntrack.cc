#include "netlink/conntrack.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/text.h"
#include "netlink/socket.h"

namespace nomad_bridge {
namespace {

// Which parts of the tuple CTA_FILTER compares. The kernel keeps these bits in
// net/netfilter/nf_internals.h, not in its public headers.
constexpr std::uint32_t kFilterProtocol = 1U << 3;
constexpr std::uint32_t kFilterDestinationPort = 1U << 5;

Message ConntrackMessage(int type, int flags, Family family) {
  Message message((NFNL_SUBSYS_CTNETLINK << 8) | type, flags);
  nfgenmsg head{};
  head.nfgen_family = family == Family::kIpv4 ? AF_INET : AF_INET6;
  head.version = NFNETLINK_V0;
  message.Head(head);
  return message;
}

// conntrack -L -f <family> -p udp [--orig-port-dst <port>]
Message Question(Family family, std::optional<std::uint16_t> port) {
  Message question = ConntrackMessage(IPCTNL_MSG_CT_GET, NLM_F_DUMP, family);
  {
    const Nest tuple(question, CTA_TUPLE_ORIG);
    const Nest protocol(question, CTA_TUPLE_PROTO);
    question.PutU8(CTA_PROTO_NUM, IPPROTO_UDP);
    if (port) {
      question.PutU16Be(CTA_PROTO_DST_PORT, *port);
    }
  }
  const Nest filter(question, CTA_FILTER);
  question.PutU32(CTA_FILTER_ORIG_FLAGS, kFilterProtocol | (port ? kFilterDestinationPort : 0));
  return question;
}

// Whether `entry` is a UDP flow towards one of `ports`.
bool Concerns(const Attributes& entry, const std::vector<UdpPort>& ports) {
  const Attributes tuple = entry.Inside(CTA_TUPLE_ORIG);
  const Attributes protocol = tuple.Inside(CTA_TUPLE_PROTO);
  const Attributes addresses = tuple.Inside(CTA_TUPLE_IP);
  if (protocol.U8(CTA_PROTO_NUM) != IPPROTO_UDP) {
    return false;
  }
  std::span<const std::uint8_t> destination = addresses.Bytes(CTA_IP_V4_DST);
  if (destination.empty()) {
    destination = addresses.Bytes(CTA_IP_V6_DST);
  }
  const std::optional<std::uint16_t> port = protocol.U16Be(CTA_PROTO_DST_PORT);
  return std::any_of(ports.begin(), ports.end(), [&](const UdpPort& wanted) {
    return wanted.port == port &&
           (!wanted.address || std::ranges::equal(wanted.address->bytes(), destination));
  });
}

// Deletes exactly this entry: its id keeps us from hitting a new flow between the same ends.
void Forget(NetlinkSocket& socket, Family family, const Attributes& entry) {
  Message message = ConntrackMessage(IPCTNL_MSG_CT_DELETE, NLM_F_ACK, family);
  for (const int attribute : {CTA_TUPLE_ORIG, CTA_ID, CTA_ZONE}) {
    const std::span<const std::uint8_t> value = entry.Bytes(attribute);
    if (!value.empty()) {
      message.PutBytes(attribute == CTA_TUPLE_ORIG ? NLA_F_NESTED | attribute : attribute, value);
    }
  }
  const Answer answer = socket.Ask(message);
  if (answer.error != 0 && answer.error != ENOENT) {
    throw Refusal("cannot remove a stale UDP entry from conntrack", answer);
  }
}

// `ports` are all of `family`.
int ForgetIn(NetlinkSocket& socket, Family family, const std::vector<UdpPort>& ports) {
  if (ports.empty()) {
    return 0;
  }
  // The kernel walks its whole table for every dump: one for all ports, narrowed further if there
  // is only one.
  const bool same_port = std::ranges::all_of(
      ports, [&](const UdpPort& other) { return other.port == ports.front().port; });
  const Message question =
      Question(family, same_port ? std::optional(ports.front().port) : std::nullopt);
  int count = 0;
  for (const NlMessage& message :
       socket.Require(question, "cannot list UDP entries of conntrack")) {
    const Attributes entry(nlmsg_hdr(message.get()), sizeof(nfgenmsg));
    if (Concerns(entry, ports)) {
      Forget(socket, family, entry);
      ++count;
    }
  }
  return count;
}

std::vector<UdpPort> Of(Family family, const std::vector<UdpPort>& ports) {
  std::vector<UdpPort> found;
  std::ranges::copy_if(
      ports, std::back_inserter(found), [&](const UdpPort& port) { return port.family == family; });
  return found;
}

}  // namespace

int ForgetUdpFlows(const Netns& ns, const std::vector<UdpPort>& ports) {
  if (ports.empty()) {
    return 0;
  }
  NetlinkSocket socket = NetlinkSocket::In(ns, NETLINK_NETFILTER);
  return ForgetIn(socket, Family::kIpv4, Of(Family::kIpv4, ports)) +
         ForgetIn(socket, Family::kIpv6, Of(Family::kIpv6, ports));
}

}  // namespace nomad_bridge
