#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include <linux/rtnetlink.h>

#include "base/text.h"
#include "netlink/rtnl/rtnl_impl.h"

namespace nomad_bridge::rtnl {
namespace {

// The metric of the routes that come with IPv6 addresses: IP6_RT_PRIO_ADDRCONF, which the kernel's
// headers for programs lack.
constexpr std::uint32_t kConnectedIpv6Metric = 256;

// Puts the attributes that identify `route` out of link `index`.
void PutRoute(netlink::Message& message, unsigned char protocol, int index, const Route& route) {
  const int scope = route.scope.value_or(route.gateway ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK);
  message.Head(rtmsg{.rtm_family = FamilyOf(route.destination.address),
                     .rtm_dst_len = static_cast<unsigned char>(route.destination.prefix_length),
                     .rtm_protocol = protocol,
                     .rtm_scope = static_cast<unsigned char>(scope),
                     .rtm_type = RTN_UNICAST});
  if (route.destination.prefix_length > 0) {
    message.PutBytes(RTA_DST, route.destination.Network().bytes());
  }
  if (route.gateway) {
    message.PutBytes(RTA_GATEWAY, route.gateway->bytes());
  }
  message.PutU32(RTA_OIF, static_cast<std::uint32_t>(index));
  message.PutU32(RTA_TABLE, route.table.value_or(RT_TABLE_MAIN));
  if (route.priority != 0) {
    message.PutU32(RTA_PRIORITY, route.priority);
  }
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

// Reads a route without its gateway, which the caller adds for each next hop.
Route ReadCommon(const rtmsg& head, const netlink::Attributes& attributes) {
  const Ip any = Ip::Parse(head.rtm_family == AF_INET ? "0.0.0.0" : "::").value_or(Ip());
  const netlink::Attributes metrics = attributes.Inside(RTA_METRICS);
  return {
      .destination = {.address = attributes.Address(RTA_DST).value_or(any),
                      .prefix_length = head.rtm_dst_len},
      .mtu = static_cast<int>(metrics.U32(RTAX_MTU).value_or(0)),
      .advmss = static_cast<int>(metrics.U32(RTAX_ADVMSS).value_or(0)),
      .priority = attributes.U32(RTA_PRIORITY).value_or(0),
      .table = attributes.U32(RTA_TABLE).value_or(head.rtm_table),
      .scope = head.rtm_scope,
  };
}

// The key is the index of the link that the routes lead out of.
using RoutesByLink = std::map<int, std::vector<Route>>;

// Adds the next hops of a multipath route.
void ReadHops(std::span<const std::uint8_t> bytes, const Route& route, RoutesByLink& routes) {
  rtnexthop hop{};
  while (bytes.size() >= sizeof(hop)) {
    std::memcpy(&hop, bytes.data(), sizeof(hop));
    if (hop.rtnh_len < sizeof(hop) || hop.rtnh_len > bytes.size()) {
      break;
    }
    const auto attributes =
        netlink::Attributes::Of(bytes.subspan(sizeof(hop), hop.rtnh_len - sizeof(hop)));
    Route& read = routes[hop.rtnh_ifindex].emplace_back(route);
    read.gateway = attributes.Address(RTA_GATEWAY);
    const std::size_t aligned = NLMSG_ALIGN(hop.rtnh_len);
    bytes = bytes.subspan(std::min(aligned, bytes.size()));
  }
}

// Adds one route for each next hop.
void ReadRoutes(const rtmsg& head, const netlink::Attributes& attributes, RoutesByLink& routes) {
  if (head.rtm_type != RTN_UNICAST || (head.rtm_family != AF_INET && head.rtm_family != AF_INET6)) {
    return;
  }
  const Route route = ReadCommon(head, attributes);
  ReadHops(attributes.Bytes(RTA_MULTIPATH), route, routes);
  if (const int oif = attributes.Number<int>(RTA_OIF).value_or(0); oif != 0) {
    routes[oif].emplace_back(route).gateway = attributes.Address(RTA_GATEWAY);
  }
}

RoutesByLink ReadAll(const netlink::Reply& reply) {
  RoutesByLink routes;
  netlink::ForEachMessage<rtmsg>(reply, [&](const rtmsg& head, const auto& attributes) {
    ReadRoutes(head, attributes, routes);
  });
  return routes;
}

netlink::Message ListRoutesRequest() {
  return {RTM_GETROUTE, NLM_F_DUMP, rtmsg{.rtm_family = AF_UNSPEC}};
}

}  // namespace

netlink::Message GetRouteRequest(const Ip& destination,
                                 const std::optional<Ip>& source,
                                 std::uint32_t flags) {
  const auto bits = static_cast<unsigned char>(destination.bits());
  netlink::Message request(
      RTM_GETROUTE,
      0,
      rtmsg{.rtm_family = FamilyOf(destination),
            .rtm_dst_len = bits,
            .rtm_src_len = source ? bits : std::uint8_t{0},
            // IPv6 names the table without this flag.
            .rtm_flags = flags | (destination.is_ipv4() ? RTM_F_LOOKUP_TABLE : 0U)});
  request.PutBytes(RTA_DST, destination.bytes());
  if (source) {
    request.PutBytes(RTA_SRC, source->bytes());
  }
  return request;
}

void Socket::EnsureConnectedRoute(const Link& link, const Cidr& address) {
  const bool is_ipv4 = address.address.is_ipv4();
  netlink::Message message(RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE);
  PutRoute(message,
           RTPROT_KERNEL,
           link.index,
           {.destination = {address.Network(), address.prefix_length},
            .priority = is_ipv4 ? 0U : kConnectedIpv6Metric});
  if (is_ipv4) {
    message.PutBytes(RTA_PREFSRC, address.address.bytes());
  }
  socket_.TransactOrThrow(
      message, Format("cannot add the route of address {} on '{}'", address, link.name), {EEXIST});
}

void Socket::EnsureRoute(const Link& link, const Route& route) {
  // Neither NLM_F_EXCL nor NLM_F_REPLACE: so the kernel answers EEXIST only for an identical route,
  // and changes no route of others.
  netlink::Message message(RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE);
  PutRoute(message, RTPROT_STATIC, link.index, route);
  PutMetrics(message, route);
  socket_.TransactOrThrow(message,
                          Format("cannot add a route to {}{} out of '{}'",
                                 route.destination,
                                 route.gateway ? Cat(" via ", *route.gateway) : "",
                                 link.name),
                          {EEXIST});
}

std::vector<Socket::LearntRoute> Socket::LearntRoutes() {
  netlink::Message request(
      RTM_GETROUTE, NLM_F_DUMP, rtmsg{.rtm_family = AF_INET6, .rtm_protocol = RTPROT_RA});
  std::vector<LearntRoute> learnt;
  netlink::ForEachMessage<rtmsg>(
      socket_.TransactOrThrow(request, "cannot list the routes by router advertisements"),
      [&](const rtmsg& head, const netlink::Attributes& attributes) {
        // Kernels before 4.20 list the routes of all protocols.
        if (head.rtm_protocol == RTPROT_RA) {
          learnt.push_back({.link = attributes.Number<int>(RTA_OIF).value_or(0),
                            .route = ReadCommon(head, attributes)});
          learnt.back().route.gateway = attributes.Address(RTA_GATEWAY);
        }
      });
  return learnt;
}

void Socket::EnsureGone(const LearntRoute& learnt) {
  netlink::Message message(RTM_DELROUTE, NLM_F_ACK);
  PutRoute(message, RTPROT_RA, learnt.link, learnt.route);
  socket_.TransactOrThrow(
      message, Cat("cannot remove the route to ", learnt.route.destination), {ESRCH, ENODEV});
}

std::vector<Route> Socket::Routes(const Link& link) {
  netlink::Message request = ListRoutesRequest();
  request.PutU32(RTA_OIF, static_cast<std::uint32_t>(link.index));
  // Take only this link's routes: an older kernel lists all routes, and a multipath route also has
  // hops out of other links.
  return ReadAll(socket_.TransactOrThrow(
      request, Format("cannot list the routes out of '{}'", link.name)))[link.index];
}

std::map<int, std::vector<Route>> Socket::RoutesByLink() {
  return ReadAll(socket_.TransactOrThrow(ListRoutesRequest(), "cannot list the routes"));
}

std::map<int, std::vector<Route>> Socket::RoutesTo(const Ip& destination) {
  // Without this flag, the kernel answers with a route to the single address.
  const netlink::Message request = GetRouteRequest(destination, std::nullopt, RTM_F_FIB_MATCH);
  return ReadAll(socket_.TransactOrThrow(
      request, Cat("cannot look up the routes to ", destination), kNoRouteErrors));
}

std::vector<Route> Socket::Routes() {
  std::vector<Route> all;
  for (const auto& [link, routes] : RoutesByLink()) {
    all.insert(all.end(), routes.begin(), routes.end());
  }
  return all;
}

}  // namespace nomad_bridge::rtnl
