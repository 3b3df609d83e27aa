#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/text.h"
#include "netlink/rtnl/rtnl_impl.h"

namespace nomad_bridge::rtnl {
namespace {

int ScopeOf(const Route& route) {
  return route.scope.value_or(route.gateway ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK);
}

rtmsg RouteHead(const Route& route) {
  rtmsg head{};
  head.rtm_family = route.destination.address.is_ipv4() ? AF_INET : AF_INET6;
  head.rtm_dst_len = static_cast<unsigned char>(route.destination.prefix_length);
  head.rtm_table = RT_TABLE_UNSPEC;
  head.rtm_protocol = RTPROT_STATIC;
  head.rtm_scope = static_cast<unsigned char>(ScopeOf(route));
  head.rtm_type = RTN_UNICAST;
  return head;
}

void PutMetrics(netlink::Message& message, const Route& route) {
  if (route.mtu == 0 && route.advmss == 0) {
    return;
  }
  const netlink::Nest metrics(message, RTA_METRICS);
  if (route.mtu != 0) {
    message.PutU32(RTAX_MTU, static_cast<std::uint32_t>(route.mtu));
  }
  if (route.advmss != 0) {
    message.PutU32(RTAX_ADVMSS, static_cast<std::uint32_t>(route.advmss));
  }
}

std::optional<Ip> ReadIp(std::span<const std::uint8_t> bytes) {
  return bytes.size() == 4 || bytes.size() == 16 ? std::optional(Ip(bytes)) : std::nullopt;
}

// A route with one next hop out of one link; the gateway is still to be filled in.
Route ReadCommon(const rtmsg& head, const netlink::Attributes& attributes) {
  const Ip any = Ip::Parse(head.rtm_family == AF_INET ? "0.0.0.0" : "::").value_or(Ip());
  const netlink::Attributes metrics = attributes.Inside(RTA_METRICS);
  return {
      .destination = {.address = ReadIp(attributes.Bytes(RTA_DST)).value_or(any),
                      .prefix_length = head.rtm_dst_len},
      .mtu = static_cast<int>(metrics.U32(RTAX_MTU).value_or(0)),
      .advmss = static_cast<int>(metrics.U32(RTAX_ADVMSS).value_or(0)),
      .priority = attributes.U32(RTA_PRIORITY).value_or(0),
      .table = attributes.U32(RTA_TABLE).value_or(head.rtm_table),
      .scope = head.rtm_scope,
  };
}

constexpr int kAnyLink = 0;

// The next hops of a multipath route that go out of link `index`.
std::vector<netlink::Attributes> HopsOut(std::span<const std::uint8_t> bytes, int index) {
  std::vector<netlink::Attributes> hops;
  rtnexthop hop{};
  while (bytes.size() >= sizeof(hop)) {
    std::memcpy(&hop, bytes.data(), sizeof(hop));
    if (hop.rtnh_len < sizeof(hop) || hop.rtnh_len > bytes.size()) {
      break;
    }
    if (index == kAnyLink || hop.rtnh_ifindex == index) {
      hops.push_back(
          netlink::Attributes::Of(bytes.subspan(sizeof(hop), hop.rtnh_len - sizeof(hop))));
    }
    const std::size_t aligned = NLMSG_ALIGN(hop.rtnh_len);
    bytes = bytes.subspan(std::min(aligned, bytes.size()));
  }
  return hops;
}

void ReadRoutes(const nlmsghdr* message, int index, std::vector<Route>& routes) {
  const rtmsg* const head = netlink::HeadOf<rtmsg>(message);
  if (head == nullptr || head->rtm_type != RTN_UNICAST ||
      (head->rtm_family != AF_INET && head->rtm_family != AF_INET6)) {
    return;
  }
  const netlink::Attributes attributes(message, sizeof(rtmsg));
  std::vector<netlink::Attributes> hops = HopsOut(attributes.Bytes(RTA_MULTIPATH), index);
  const int oif = static_cast<int>(attributes.U32(RTA_OIF).value_or(0));
  if (oif != 0 && (index == kAnyLink || oif == index)) {
    hops.push_back(attributes);
  }
  for (const netlink::Attributes& hop : hops) {
    Route route = ReadCommon(*head, attributes);
    route.gateway = ReadIp(hop.Bytes(RTA_GATEWAY));
    routes.push_back(route);
  }
}

std::vector<Route> ListRoutes(netlink::RequestSocket& socket, int index, const std::string& what) {
  netlink::Message request(RTM_GETROUTE, NLM_F_DUMP);
  rtmsg head{};
  head.rtm_family = AF_UNSPEC;
  request.Head(head);
  if (index != kAnyLink) {
    request.PutU32(RTA_OIF, static_cast<std::uint32_t>(index));
  }
  std::vector<Route> routes;
  const netlink::Reply reply = socket.TransactOrThrow(request, what);
  for (const netlink::NlMessage& message : reply.messages) {
    ReadRoutes(nlmsg_hdr(message.get()), index, routes);
  }
  return routes;
}

}  // namespace

void Socket::EnsureRoute(const Link& link, const Route& route) {
  // Neither EXCL nor REPLACE: an identical route is then the only EEXIST, and nobody else's route
  // is touched.
  netlink::Message message(RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE);
  message.Head(RouteHead(route));
  if (route.destination.prefix_length > 0) {
    message.PutBytes(RTA_DST, route.destination.Network().bytes());
  }
  if (route.gateway) {
    message.PutBytes(RTA_GATEWAY, route.gateway->bytes());
  }
  message.PutU32(RTA_OIF, static_cast<std::uint32_t>(link.index));
  message.PutU32(RTA_TABLE, route.table.value_or(RT_TABLE_MAIN));
  if (route.priority != 0) {
    message.PutU32(RTA_PRIORITY, route.priority);
  }
  PutMetrics(message, route);
  socket_.TransactOrThrow(message,
                          Cat("cannot add a route to ",
                              route.destination,
                              route.gateway ? Cat(" via ", *route.gateway) : "",
                              " out of ",
                              Quoted(link.name)),
                          {EEXIST});
}

std::vector<Route> Socket::Routes(const Link& link) {
  return ListRoutes(socket_, link.index, Cat("cannot list the routes out of ", Quoted(link.name)));
}

std::vector<Route> Socket::Routes() {
  return ListRoutes(socket_, kAnyLink, "cannot list the routes");
}

std::optional<int> Socket::LookupOutputInterface(const Ip& destination) {
  netlink::Message request(RTM_GETROUTE, 0);
  rtmsg head{};
  head.rtm_family = destination.is_ipv4() ? AF_INET : AF_INET6;
  head.rtm_dst_len = static_cast<unsigned char>(destination.bytes().size() * CHAR_BIT);
  request.Head(head);
  request.PutBytes(RTA_DST, destination.bytes());
  // No route; one of type unreachable, prohibit or blackhole; a family that this kernel lacks.
  const netlink::Reply reply =
      socket_.TransactOrThrow(request,
                              Cat("cannot look up the route to ", destination),
                              {ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL, EOPNOTSUPP});
  if (reply.messages.empty()) {
    return std::nullopt;
  }
  const netlink::Attributes route(nlmsg_hdr(reply.messages.front().get()), sizeof(rtmsg));
  return static_cast<int>(route.U32(RTA_OIF).value_or(0));
}

}  // namespace nomad_bridge::rtnl
