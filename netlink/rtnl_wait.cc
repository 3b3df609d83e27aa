#include <array>
#include <cerrno>
#include <chrono>

#include <linux/if_bridge.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "netlink/rtnl_impl.h"

namespace nomad_bridge {
namespace {

// In the order of IF_OPER_... and BR_STATE_..., as ip(8) calls them.
constexpr std::array<std::string_view, 7>
    kOperstates{"unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up"};
constexpr std::array<std::string_view, 5> kPortStates{"disabled",
                                                      "listening",
                                                      "learning",
                                                      "forwarding",
                                                      "blocking"};

// A socket that hears of every change to a link of `ns`.
UniqueFd ListenToLinks(const Netns& ns) {
  UniqueFd events;
  InNetns(ns, [&] {
    events = UniqueFd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  });
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK;
  const auto* const generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
  if (!events || ::bind(events.get(), generic, sizeof(address)) != 0) {
    throw ErrnoError(Code::kKernel, "cannot listen to changes of links");
  }
  return events;
}

// Whether one of the messages is about link `index`.
bool Mention(std::span<const std::byte> messages, int index) {
  int left = static_cast<int>(messages.size());
  const auto* first = static_cast<const void*>(messages.data());
  // libnl's iterator wants a pointer to non-const, though it only reads.
  for (auto* message = static_cast<nlmsghdr*>(const_cast<void*>(first));
       nlmsg_ok(message, left) != 0;
       message = nlmsg_next(message, &left)) {
    const ifinfomsg* const head = HeadOf<ifinfomsg>(message);
    if (head != nullptr && head->ifi_index == index) {
      return true;
    }
  }
  return false;
}

// Reads what has come. Whether any of it concerns link `index`; also true if so much came that some
// was lost.
bool Drain(const UniqueFd& events, int index) {
  alignas(nlmsghdr) std::array<std::byte, 16384> buffer;
  bool concerned = false;
  for (;;) {
    const ssize_t got = ::recv(events.get(), buffer.data(), buffer.size(), 0);
    if (got > 0) {
      concerned =
          Mention(std::span(buffer).first(static_cast<std::size_t>(got)), index) || concerned;
    } else if (got < 0 && errno == ENOBUFS) {
      concerned = true;
    } else if (got == 0 || errno != EINTR) {
      return concerned;
    }
  }
}

// Sleeps until link `index` changes; false at the deadline.
bool AwaitChange(const UniqueFd& events, int index, Deadline deadline) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return false;
    }
    pollfd waiting{.fd = events.get(), .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, static_cast<int>(left.count())) > 0 && Drain(events, index)) {
      return true;
    }
  }
}

bool IsReady(const LinkState& state) {
  return state.link.operational &&
         state.port_state.value_or(BR_STATE_FORWARDING) == BR_STATE_FORWARDING;
}

// "it is set up, its operstate is down, its bridge port is disabled".
std::string Describe(const LinkState& state) {
  std::string text =
      Cat("it is set ",
          state.link.up ? "up" : "down",
          ", its operstate is ",
          kOperstates.at(static_cast<std::size_t>(state.operstate) % kOperstates.size()));
  if (state.port_state) {
    text += Cat(", its bridge port is ", kPortStates.at(*state.port_state % kPortStates.size()));
  }
  return text;
}

}  // namespace

void Rtnl::AwaitOperational(const std::string& name, Deadline deadline) {
  const auto look = [&] {
    std::optional<LinkState> state = FindLinkState(impl_->socket, name);
    if (!state) {
      throw Error(
          Code::kKernel, Cat("cannot wait for interface ", Quoted(name)), "it has disappeared");
    }
    return *std::move(state);
  };
  if (IsReady(look())) {
    return;  // mostly it is
  }
  // Listen first, look then: what changes in between is heard of.
  const UniqueFd events = ListenToLinks(Netns::OfSocket(impl_->socket.fd()));
  for (LinkState state = look(); !IsReady(state); state = look()) {
    if (!AwaitChange(events, state.link.index, deadline)) {
      throw Error(Code::kTryAgain,
                  Cat("interface ", Quoted(name), " did not become ready in time"),
                  Describe(state));
    }
  }
}

}  // namespace nomad_bridge
