// The socket for events uses socket(2) and bind(2): mnl_socket_bind() and libnl's nl_connect()
// would take more system calls per wait.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <functional>

#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_bridge.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "netlink/rtnl/rtnl_impl.h"

namespace nomad_bridge::rtnl {
namespace {

// Names as in ip(8), in the order of IF_OPER_... and BR_STATE_...
constexpr std::array kOperstates =
    {"unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up"};
constexpr std::array kPortStates = {"disabled", "listening", "learning", "forwarding", "blocking"};

// Returns whether an event is one that the caller waits for.
using EventFilter = std::function<bool(const nlmsghdr*)>;

// Returns a socket that receives an event for every change in `group` (RTMGRP_...) of `ns`.
UniqueFd Listen(const netlink::Netns& ns, std::uint32_t group) {
  UniqueFd events;
  netlink::InNetns(ns, [&] {
    events = UniqueFd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  });
  const sockaddr_nl address{.nl_family = AF_NETLINK, .nl_groups = group};
  const auto* const generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
  if (!events || ::bind(events.get(), generic, sizeof(address)) != 0) {
    throw ErrnoError(Code::kKernel, "cannot listen to changes of links, addresses and routes");
  }
  return events;
}

// Reads all waiting events. Returns true if one matches, or if some were lost because there were
// too many.
bool Drain(const UniqueFd& events, const EventFilter& matches) {
  alignas(nlmsghdr) std::array<char, 16384> buffer;
  bool matched = false;
  for (;;) {
    const ssize_t got = ::recv(events.get(), buffer.data(), buffer.size(), 0);
    if (got == 0 || (got < 0 && errno != EINTR && errno != ENOBUFS)) {
      return matched;  // EAGAIN: there are no more
    }
    matched = matched || (got < 0 && errno == ENOBUFS);
    netlink::ForEachIn(buffer.data(), got, [&](const nlmsghdr& message) {
      matched = matched || matches(&message);
    });
  }
}

// Sleeps until an event matches or `child` has ended. Returns false at the deadline.
bool AwaitEvent(const UniqueFd& events,
                const EventFilter& matches,
                Deadline deadline,
                const netlink::BackgroundRequest* child) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return false;
    }
    std::array<pollfd, 2> waiting = {
        {{.fd = events.get(), .events = POLLIN, .revents = 0},
         // poll(2) ignores a negative descriptor.
         {.fd = child == nullptr ? -1 : child->fd(), .events = POLLIN, .revents = 0}}};
    if (::poll(waiting.data(), waiting.size(), static_cast<int>(left.count())) > 0 &&
        (Drain(events, matches) || waiting[1].revents != 0)) {
      return true;
    }
  }
}

// What Await() waits for: matching events of `group`, or the end of `child`, if there is a child.
struct Events {
  std::uint32_t group;
  const EventFilter& matches;
  const netlink::BackgroundRequest* child = nullptr;
};

// Waits until `is_ready` returns true. Calls it now and after each of the `awaited` events. Returns
// false at the deadline.
bool Await(netlink::RequestSocket& socket,
           const std::function<bool()>& is_ready,
           const Events& awaited,
           Deadline deadline) {
  if (is_ready()) {
    return true;  // the usual case
  }
  // Listen before checking again, so that no change in between is missed.
  const UniqueFd events = Listen(netlink::Netns::OfSocket(socket.fd()), awaited.group);
  while (!is_ready()) {
    if (!AwaitEvent(events, awaited.matches, deadline, awaited.child)) {
      return false;
    }
  }
  return true;
}

// Without spanning tree, a port goes from disabled to forwarding while the kernel holds its RTNL
// lock, so we see no other state.
bool IsReady(const Link& link) {
  return link.operational && link.port_state.value_or(BR_STATE_FORWARDING) != BR_STATE_DISABLED;
}

// "it is set up, its operstate is down, its bridge port is disabled".
std::string Describe(const Link& link) {
  std::string text =
      Format("it is set {}, its operstate is {}",
             link.up ? "up" : "down",
             kOperstates.at(static_cast<std::size_t>(link.operstate) % kOperstates.size()));
  if (link.port_state) {
    text += Cat(", its bridge port is ", kPortStates.at(*link.port_state % kPortStates.size()));
  }
  return text;
}

// Returns whether this machine accepts packets to `address` (IPv6, on `link`) as its own.
bool IsLocal(netlink::RequestSocket& socket, const Link& link, const Ip& address) {
  netlink::Message request = GetRouteRequest(address);
  request.PutU32(RTA_OIF, static_cast<std::uint32_t>(link.index));
  bool is_local = false;
  netlink::ForEachMessage<rtmsg>(
      socket.Transact(request, Cat("cannot look up the route to ", address)),
      [&](const rtmsg& route, const auto&) { is_local = route.rtm_type == RTN_LOCAL; });
  return is_local;
}

// Like IsLocal(), but waits for a route that the kernel is just adding, because a dump takes the
// table's lock. The kernel sends the event about a new route before a lookup finds the route
// (fib6_add_rt2node), and sends no event afterwards. So the event that wakes us may come too early
// for IsLocal().
bool HasLocalRoute(netlink::RequestSocket& socket, const Link& link, const Ip& address) {
  netlink::Message request(
      RTM_GETROUTE, NLM_F_DUMP, rtmsg{.rtm_family = AF_INET6, .rtm_type = RTN_LOCAL});
  request.PutU32(RTA_OIF, static_cast<std::uint32_t>(link.index));
  if (link.master == 0) {
    // Without this, the kernel visits all routes. In a VRF the local routes are in another table.
    request.PutU32(RTA_TABLE, RT_TABLE_LOCAL);
  }
  bool found = false;
  netlink::ForEachMessage<rtmsg>(
      socket.Transact(request, Format("cannot list the local routes of '{}'", link.name)),
      [&](const rtmsg& head, const netlink::Attributes& route) {
        found = found || (head.rtm_type == RTN_LOCAL &&
                          std::ranges::equal(route.Bytes(RTA_DST), address.bytes()));
      });
  return found;
}

// Returns an address whose duplicate address detection is in progress; nullopt if there is none.
// Throws kConflict if another machine has one of the addresses.
std::optional<Cidr> FindTentative(netlink::RequestSocket& socket, const Link& link) {
  std::optional<Cidr> tentative;
  for (const AddressState& state : AddressStates(socket, link)) {
    if (state.duplicate) {
      throw Error(Code::kConflict,
                  Format("address {} of '{}' is taken", state.address, link.name),
                  "duplicate address detection found another machine that has it");
    }
    if (state.tentative) {
      tentative = state.address;
    }
  }
  return tentative;
}

}  // namespace

Link Socket::AwaitOperational(const std::string& name, Deadline deadline) {
  Link link;
  const auto is_ready = [&] {
    std::optional<Link> found = FindLink(name);
    if (!found) {
      throw Error(
          Code::kKernel, Format("cannot wait for interface '{}'", name), "it has disappeared");
    }
    link = *std::move(found);
    return IsReady(link);
  };
  const auto matches = [&](const nlmsghdr* message) {
    const ifinfomsg* const head = netlink::HeadOf<ifinfomsg>(message);
    return head != nullptr && head->ifi_index == link.index;
  };
  if (!Await(socket_, is_ready, {RTMGRP_LINK, matches}, deadline)) {
    throw Error(Code::kTryAgain,
                Format("interface '{}' did not become ready in time", name),
                Describe(link));
  }
  return link;
}

// The child holds the kernel's RTNL lock until both ends are gone, and FindLink() waits for that
// lock. So this function waits for events only if the child does not have the lock yet.
std::optional<pid_t> Socket::EnsureLinkGone(const Link& link, std::span<const int> kept) {
  const netlink::Message request(RTM_DELLINK, 0, HeadFor(link.index));
  std::optional<netlink::BackgroundRequest> child = socket_.SendInBackground(request, kept);
  bool has_ended = !child;
  const auto is_settled = [&] {
    has_ended = child->HasEnded();
    return has_ended || !FindLink(link.index);
  };
  const auto is_gone = [&](const nlmsghdr* message) {
    const ifinfomsg* const head = netlink::HeadOf<ifinfomsg>(message);
    return message->nlmsg_type == RTM_DELLINK && head != nullptr && head->ifi_index == link.index;
  };
  if (child && !Await(socket_, is_settled, {RTMGRP_LINK, is_gone, &*child}, FromNow(kTimeout))) {
    throw Error(Code::kTryAgain,
                Format("cannot delete interface '{}'", link.name),
                "the kernel did not do so in time");
  }
  if (!has_ended) {
    return child->pid();
  }
  EnsureLinkGone(link.name);  // the child was killed or refused; if refused, this call reports why
  return std::nullopt;
}

void Socket::AwaitLocal(const Link& link, const Ip& address, Deadline deadline) {
  const auto is_local = [&] {
    return IsLocal(socket_, link, address) || HasLocalRoute(socket_, link, address);
  };
  const auto any = [](const nlmsghdr*) { return true; };
  if (!Await(socket_, is_local, {RTMGRP_IPV6_ROUTE, any}, deadline)) {
    throw Error(Code::kTryAgain,
                Format("address {} of '{}' did not become ready in time", address, link.name),
                "the kernel has not made its local route");
  }
}

void Socket::AwaitAddresses(const Link& link, Deadline deadline) {
  std::optional<Cidr> tentative;
  const auto are_settled = [&] {
    tentative = FindTentative(socket_, link);
    return !tentative;
  };
  const auto matches = [&](const nlmsghdr* message) {
    const ifaddrmsg* const head = netlink::HeadOf<ifaddrmsg>(message);
    return head != nullptr && static_cast<int>(head->ifa_index) == link.index;
  };
  if (!Await(socket_, are_settled, {RTMGRP_IPV6_IFADDR, matches}, deadline)) {
    throw Error(Code::kTryAgain,
                Format("address {} of '{}' did not become usable", *tentative, link.name),
                "duplicate address detection has not come to an end in time");
  }
}

}  // namespace nomad_bridge::rtnl
