#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>

#include "base/text.h"
#include "netlink/rtnl/rtnl_impl.h"

namespace nomad_bridge::rtnl {
namespace {

// The states in which the kernel uses a neighbour entry to send packets.
constexpr int kUsed = NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP;

// Returns whether the route type drops packets.
bool Drops(unsigned char route_type) {
  return route_type == RTN_BLACKHOLE || route_type == RTN_UNREACHABLE || route_type == RTN_PROHIBIT;
}

// Reads the age from nda_cacheinfo, which counts hundredths of a second.
std::chrono::milliseconds AgeIn(std::span<const std::uint8_t> bytes) {
  constexpr int kMilliseconds = 10;
  nda_cacheinfo info{};
  if (bytes.size() >= sizeof info) {
    std::memcpy(&info, bytes.data(), sizeof info);
  }
  return std::chrono::milliseconds(std::int64_t{info.ndm_updated} * kMilliseconds);
}

// Puts the protocol and the ports. The kernel accepts these attributes only for TCP and UDP.
void PutFlow(netlink::Message& request, const std::optional<Flow>& flow) {
  if (!flow || (flow->protocol != IPPROTO_TCP && flow->protocol != IPPROTO_UDP)) {
    return;
  }
  request.PutU8(RTA_IP_PROTO, flow->protocol);
  request.PutU16(RTA_SPORT, htons(flow->source_port));
  request.PutU16(RTA_DPORT, htons(flow->destination_port));
}

}  // namespace

std::string ErrorText(const RouteAnswer& answer) {
  switch (answer.error) {
    case EINVAL:
      return "a route there is a blackhole";
    case EHOSTUNREACH:
      return "a route there is unreachable";
    case EACCES:
      return "a route or rule there prohibits it";
    default:
      return "there is no route";
  }
}

RouteAnswer Socket::LookUpRoute(const RouteQuery& query) {
  netlink::Message request = GetRouteRequest(query.destination, query.source);
  if (query.input_link != 0) {
    request.PutU32(RTA_IIF, static_cast<std::uint32_t>(query.input_link));
  }
  if (query.mark != 0) {
    request.PutU32(RTA_MARK, query.mark);
  }
  PutFlow(request, query.flow);
  const netlink::Reply reply = socket_.TransactOrThrow(
      request, Cat("cannot look up the route to ", query.destination), kNoRouteErrors);
  RouteAnswer answer{.error = reply.error};
  netlink::ForEachMessage<rtmsg>(
      reply, [&](const rtmsg& head, const netlink::Attributes& attributes) {
        // For such a route, IPv6 answers with the route, IPv4 with an error.
        answer.error = Drops(head.rtm_type) ? EHOSTUNREACH : 0;
        answer.link = attributes.Number<int>(RTA_OIF).value_or(0);
        answer.is_local = head.rtm_type == RTN_LOCAL;
        answer.table = attributes.U32(RTA_TABLE).value_or(head.rtm_table);
        answer.gateway = attributes.Address(RTA_GATEWAY);
        answer.source = attributes.Address(RTA_PREFSRC);
      });
  return answer;
}

std::optional<int> Socket::LookupOutputInterface(const Ip& destination) {
  const RouteAnswer answer = LookUpRoute({.destination = destination});
  return answer.error == 0 ? std::optional(answer.link) : std::nullopt;
}

Socket::NeighbourEntry Socket::ReadNeighbour(const Link& link, const Ip& address) {
  netlink::Message request(
      RTM_GETNEIGH, 0, ndmsg{.ndm_family = FamilyOf(address), .ndm_ifindex = link.index});
  request.PutBytes(NDA_DST, address.bytes());
  NeighbourEntry entry;
  netlink::ForEachMessage<ndmsg>(
      socket_.TransactOrThrow(
          request, Cat("cannot look up the neighbour ", address), {ENOENT, EINVAL, ENODEV}),
      [&](const ndmsg& head, const netlink::Attributes& attributes) {
        entry = {.state = head.ndm_state,
                 .mac = ReadMac(attributes.Bytes(NDA_LLADDR)),
                 .age = AgeIn(attributes.Bytes(NDA_CACHEINFO))};
      });
  return entry;
}

std::optional<Neighbour> Socket::FindNeighbour(const Link& link, const Ip& address) {
  const NeighbourEntry entry = ReadNeighbour(link, address);
  return (entry.state & kUsed) == 0
             ? std::nullopt
             : std::optional<Neighbour>({.link = link.index,
                                         .address = address,
                                         .mac = entry.mac,
                                         .permanent = (entry.state & NUD_PERMANENT) != 0});
}

std::vector<Neighbour> Socket::Neighbours() {
  netlink::Message request(RTM_GETNEIGH, NLM_F_DUMP, ndmsg{.ndm_family = AF_UNSPEC});
  std::vector<Neighbour> neighbours;
  netlink::ForEachMessage<ndmsg>(
      socket_.TransactOrThrow(request, "cannot list the neighbours"),
      [&](const ndmsg& head, const netlink::Attributes& attributes) {
        const std::optional<Ip> address = attributes.Address(NDA_DST);
        if (address && (head.ndm_state & kUsed) != 0) {
          neighbours.push_back({.link = head.ndm_ifindex,
                                .address = *address,
                                .mac = ReadMac(attributes.Bytes(NDA_LLADDR)),
                                .permanent = (head.ndm_state & NUD_PERMANENT) != 0});
        }
      });
  return neighbours;
}

std::optional<std::chrono::milliseconds> Socket::UnansweredFor(const Link& link,
                                                               const Ip& address) {
  const NeighbourEntry entry = ReadNeighbour(link, address);
  return (entry.state & (NUD_INCOMPLETE | NUD_FAILED)) == 0 ? std::nullopt
                                                            : std::optional(entry.age);
}

void Socket::ForgetUnanswered(const Link& link, const Ip& address) {
  if (ReadNeighbour(link, address).state != NUD_INCOMPLETE) {
    return;
  }
  netlink::Message request(
      RTM_DELNEIGH, NLM_F_ACK, ndmsg{.ndm_family = FamilyOf(address), .ndm_ifindex = link.index});
  request.PutBytes(NDA_DST, address.bytes());
  socket_.TransactOrThrow(
      request, Format("cannot forget the neighbour {} on '{}'", address, link.name), {ENOENT});
}

}  // namespace nomad_bridge::rtnl
