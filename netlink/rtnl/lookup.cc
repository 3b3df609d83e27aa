#include <array>
#include <cerrno>

#include <linux/fib_rules.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include "base/text.h"
#include "netlink/rtnl/rtnl_impl.h"

namespace nomad_bridge::rtnl {
namespace {

// The states of a neighbour entry in which packets are sent by it.
constexpr int kUsed = NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP;

struct Blocker {
  unsigned char route_type;
  unsigned char rule_action;
  const char* name;
};

constexpr std::array kBlockers = {Blocker{RTN_BLACKHOLE, FR_ACT_BLACKHOLE, "blackhole"},
                                  Blocker{RTN_UNREACHABLE, FR_ACT_UNREACHABLE, "unreachable"},
                                  Blocker{RTN_PROHIBIT, FR_ACT_PROHIBIT, "prohibit"}};

// "" if it is none.
std::string BlockerOf(unsigned char Blocker::*member, unsigned char value) {
  for (const Blocker& blocker : kBlockers) {
    if (blocker.*member == value) {
      return blocker.name;
    }
  }
  return {};
}

// nullopt: any address
std::optional<Cidr> PrefixIn(const netlink::Attributes& attributes, int attribute, int length) {
  const std::optional<Ip> address = attributes.Address(attribute);
  return address ? std::optional<Cidr>({.address = *address, .prefix_length = length})
                 : std::nullopt;
}

}  // namespace

RouteAnswer Socket::LookUpRoute(const RouteQuery& query) {
  netlink::Message request = GetRouteRequest(query.destination, query.source);
  if (query.input_link != 0) {
    request.PutU32(RTA_IIF, static_cast<std::uint32_t>(query.input_link));
  }
  const netlink::Reply reply = socket_.TransactOrThrow(
      request,
      Cat("cannot look up the route to ", query.destination),
      {ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL, EOPNOTSUPP, EXDEV, ENODEV});
  RouteAnswer answer{.error = reply.error};
  netlink::ForEachMessage<rtmsg>(
      reply, [&](const rtmsg& head, const netlink::Attributes& attributes) {
        // IPv6 answers with such a route, where IPv4 refuses.
        answer.error = BlockerOf(&Blocker::route_type, head.rtm_type).empty() ? 0 : EHOSTUNREACH;
        answer.link = attributes.Number<int>(RTA_OIF).value_or(0);
        answer.table = attributes.U32(RTA_TABLE).value_or(head.rtm_table);
      });
  return answer;
}

std::optional<int> Socket::LookupOutputInterface(const Ip& destination) {
  const RouteAnswer answer = LookUpRoute({.destination = destination});
  return answer.error == 0 ? std::optional(answer.link) : std::nullopt;
}

std::vector<BlockingRoute> Socket::BlockingRoutes(const Ip& address) {
  std::vector<BlockingRoute> routes;
  const netlink::Message request(RTM_GETROUTE, NLM_F_DUMP, rtmsg{.rtm_family = FamilyOf(address)});
  netlink::ForEachMessage<rtmsg>(
      socket_.TransactOrThrow(request, "cannot list the routes"),
      [&](const rtmsg& head, const netlink::Attributes& attributes) {
        const std::string type = BlockerOf(&Blocker::route_type, head.rtm_type);
        const std::optional<Cidr> to = PrefixIn(attributes, RTA_DST, head.rtm_dst_len);
        if (!type.empty() && (!to || to->Contains(address))) {
          routes.push_back({.type = type,
                            .destination = to ? to->Text() : "default",
                            .table = attributes.U32(RTA_TABLE).value_or(head.rtm_table)});
        }
      });
  return routes;
}

std::vector<BlockingRule> Socket::BlockingRules(const Ip& address) {
  std::vector<BlockingRule> rules;
  const netlink::Message request(
      RTM_GETRULE, NLM_F_DUMP, fib_rule_hdr{.family = FamilyOf(address)});
  netlink::ForEachMessage<fib_rule_hdr>(
      socket_.TransactOrThrow(request, "cannot list the rules of policy routing"),
      [&](const fib_rule_hdr& head, const netlink::Attributes& attributes) {
        const std::string action = BlockerOf(&Blocker::rule_action, head.action);
        const auto to = PrefixIn(attributes, FRA_DST, head.dst_len);
        const auto from = PrefixIn(attributes, FRA_SRC, head.src_len);
        if (!action.empty() && (!to || to->Contains(address)) &&
            (!from || from->Contains(address))) {
          rules.push_back({.action = action, .priority = attributes.U32(FRA_PRIORITY).value_or(0)});
        }
      });
  return rules;
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
        entry = {.state = head.ndm_state, .mac = ReadMac(attributes.Bytes(NDA_LLADDR))};
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

bool Socket::IsUnanswered(const Link& link, const Ip& address) {
  return (ReadNeighbour(link, address).state & (NUD_INCOMPLETE | NUD_FAILED)) != 0;
}

}  // namespace nomad_bridge::rtnl
