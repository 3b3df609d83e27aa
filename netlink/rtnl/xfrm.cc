#include "netlink/rtnl/xfrm.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <span>
#include <utility>

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/xfrm.h>
#include <sys/socket.h>

#include "base/file.h"
#include "base/list.h"
#include "base/text.h"
#include "netlink/core/message.h"
#include "netlink/core/request_socket.h"

namespace nomad_bridge::rtnl {
namespace {

// With whom IPsec is done by now.
struct State {
  xfrm_address_t destination{};
  std::uint8_t protocol = 0;
  std::uint32_t request = 0;

  [[nodiscard]] bool Serves(const xfrm_user_tmpl& wanted) const {
    const bool is_tunnel = wanted.mode == XFRM_MODE_TUNNEL;
    return protocol == wanted.id.proto && (wanted.reqid == 0 || wanted.reqid == request) &&
           (!is_tunnel || std::ranges::equal(destination.a6, wanted.id.daddr.a6));
  }
};

// What /proc says of the sockets of this protocol: the kernel's own one is among them, and so is
// that of a daemon that the kernel tells of packets which wait for a tunnel. proc_pid_net(5)
struct Sockets {
  bool any = false;
  bool daemons = false;
};

Sockets FindSockets(const netlink::Netns& ns) {
  constexpr unsigned long kAcquire = 1U << (XFRMNLGRP_ACQUIRE - 1);
  Sockets sockets;
  netlink::InNetns(ns, [&] {
    const std::string all = FindFile("/proc/self/net/netlink").value_or("");
    for (const std::string& line : SplitFields(all, "\n")) {
      // sk, protocol, port, groups
      const std::vector<std::string> fields = SplitFields(line, " ");
      if (fields.size() > 3 && fields[1] == std::to_string(NETLINK_XFRM)) {
        sockets.any = true;
        sockets.daemons |= (std::strtoul(fields[3].c_str(), nullptr, 16) & kAcquire) != 0;
      }
    }
  });
  return sockets;
}

Ip AddressIn(const xfrm_address_t& address, Family family) {
  const std::span bytes(static_cast<const std::uint8_t*>(static_cast<const void*>(&address)),
                        sizeof address);
  return Ip(bytes.first(family == Family::kIpv4 ? 4 : bytes.size()));
}

// Those that are wanted of an attribute's row.
std::vector<xfrm_user_tmpl> TemplatesIn(std::span<const std::uint8_t> bytes) {
  std::vector<xfrm_user_tmpl> templates(bytes.size() / sizeof(xfrm_user_tmpl));
  if (!templates.empty()) {
    std::memcpy(templates.data(), bytes.data(), templates.size() * sizeof(xfrm_user_tmpl));
  }
  std::erase_if(templates, [](const xfrm_user_tmpl& each) { return each.optional != 0; });
  return templates;
}

std::vector<State> ListStates(netlink::RequestSocket& socket) {
  std::vector<State> states;
  netlink::ForEachMessage<xfrm_usersa_info>(
      socket.TransactOrThrow(netlink::Message(XFRM_MSG_GETSA, NLM_F_DUMP),
                             "cannot list the states of IPsec"),
      [&](const xfrm_usersa_info& info, const netlink::Attributes& /*more*/) {
        if (info.id.spi != 0) {  // else the kernel still asks for one
          states.push_back(
              {.destination = info.id.daddr, .protocol = info.id.proto, .request = info.reqid});
        }
      });
  return states;
}

bool IsOfInterface(const netlink::Attributes& more) {
  return more.U32(XFRMA_IF_ID).value_or(0) != 0;
}

// nullopt: of a socket, or of another kind
std::optional<XfrmPolicy> ReadPolicy(const xfrm_userpolicy_info& info,
                                     const netlink::Attributes& more,
                                     const std::vector<State>& states) {
  const xfrm_selector& selector = info.sel;
  const bool is_sub =
      more.Number<xfrm_userpolicy_type>(XFRMA_POLICY_TYPE).value_or(xfrm_userpolicy_type{}).type ==
      XFRM_POLICY_TYPE_SUB;
  if (info.dir > XFRM_POLICY_FWD || is_sub || IsOfInterface(more)) {
    return std::nullopt;
  }
  const Family family = selector.family == AF_INET ? Family::kIpv4 : Family::kIpv6;
  const std::vector<xfrm_user_tmpl> wanted = TemplatesIn(more.Bytes(XFRMA_TMPL));
  const auto is_unserved = [&](const xfrm_user_tmpl& each) {
    return std::ranges::none_of(states, [&](const State& state) { return state.Serves(each); });
  };
  return XfrmPolicy{
      .way = static_cast<XfrmWay>(info.dir),
      .family = family,
      .source = {AddressIn(selector.saddr, family), selector.prefixlen_s},
      .destination = {AddressIn(selector.daddr, family), selector.prefixlen_d},
      .protocol = selector.proto,
      .source_port = {ntohs(selector.sport), ntohs(selector.sport_mask)},
      .destination_port = {ntohs(selector.dport), ntohs(selector.dport_mask)},
      .asks_for_more =
          selector.ifindex != 0 || more.Number<xfrm_mark>(XFRMA_MARK).value_or(xfrm_mark{}).m != 0,
      .priority = info.priority,
      .blocks = info.action == XFRM_POLICY_BLOCK,
      .lacks_state = std::ranges::any_of(wanted, is_unserved)};
}

// None where the kernel (before Linux 5.15) lets pass all that no policy is about. Of the ways
// `of_interfaces` policies that are not looked at may let some pass.
std::vector<XfrmPolicy> DefaultsThatBlock(netlink::RequestSocket& socket,
                                          const std::set<XfrmWay>& of_interfaces) {
  std::vector<XfrmPolicy> defaults;
  const netlink::Reply reply =
      socket.Transact(netlink::Message(XFRM_MSG_GETDEFAULT, 0, xfrm_userpolicy_default{}),
                      "cannot read the default policies of IPsec");
  netlink::ForEachMessage<xfrm_userpolicy_default>(
      reply, [&](const xfrm_userpolicy_default& of, const netlink::Attributes& /*more*/) {
        for (const auto& [way, action] : {std::pair{XfrmWay::kIn, of.in},
                                          std::pair{XfrmWay::kOut, of.out},
                                          std::pair{XfrmWay::kForward, of.fwd}}) {
          for (const Family family : {Family::kIpv4, Family::kIpv6}) {
            if (action == XFRM_USERPOLICY_BLOCK) {
              defaults.push_back({.way = way,
                                  .family = family,
                                  .asks_for_more = of_interfaces.contains(way),
                                  .blocks = true,
                                  .is_default = true});
            }
          }
        }
      });
  return defaults;
}

enum class Match : std::uint8_t { kNo, kSome, kAll };

Match MatchAddress(const Cidr& selector, const std::optional<Ip>& address) {
  if (selector.prefix_length == 0) {
    return Match::kAll;
  }
  return !address ? Match::kSome : selector.Contains(*address) ? Match::kAll : Match::kNo;
}

Match MatchPort(const XfrmPort& selector, std::uint16_t port) {
  return ((port ^ selector.number) & selector.mask) == 0 ? Match::kAll : Match::kNo;
}

Match MatchOf(const XfrmPolicy& policy, const XfrmFlow& flow) {
  if (policy.way != flow.way || policy.family != flow.family ||
      (policy.protocol != 0 && policy.protocol != flow.protocol)) {
    return Match::kNo;
  }
  return std::min({MatchAddress(policy.source, flow.source),
                   MatchAddress(policy.destination, flow.destination),
                   MatchPort(policy.source_port, flow.source_port),
                   MatchPort(policy.destination_port, flow.destination_port),
                   policy.asks_for_more ? Match::kSome : Match::kAll});
}

std::string PortWords(std::string_view what, const XfrmPort& port) {
  return port.mask == 0 ? "" : Format(" {} {}", what, port.number);
}

}  // namespace

std::string_view Text(XfrmWay way) {
  return way == XfrmWay::kIn ? "in" : way == XfrmWay::kOut ? "out" : "fwd";
}

std::string XfrmPolicy::Text() const {
  return Cat(Format("src {} dst {}", source, destination),
             protocol == 0 ? "" : Format(" proto {}", int{protocol}),
             PortWords("sport", source_port),
             PortWords("dport", destination_port),
             " dir ",
             rtnl::Text(way));
}

XfrmPolicies XfrmPolicies::In(const netlink::Netns& ns) {
  XfrmPolicies all;
  const Sockets sockets = FindSockets(ns);
  if (!sockets.any) {
    return all;
  }
  netlink::RequestSocket socket = netlink::RequestSocket::In(ns, NETLINK_XFRM);
  const netlink::Reply reply = socket.TransactOrThrow(
      netlink::Message(XFRM_MSG_GETPOLICY, NLM_F_DUMP), "cannot list the policies of IPsec");
  const std::vector<State> states =
      reply.messages.empty() ? std::vector<State>() : ListStates(socket);
  std::set<XfrmWay> of_interfaces;
  netlink::ForEachMessage<xfrm_userpolicy_info>(
      reply, [&](const xfrm_userpolicy_info& info, const netlink::Attributes& more) {
        if (info.dir <= XFRM_POLICY_FWD && IsOfInterface(more)) {
          of_interfaces.insert(static_cast<XfrmWay>(info.dir));
        }
        if (std::optional<XfrmPolicy> policy = ReadPolicy(info, more, states)) {
          policy->lacks_state &= !sockets.daemons;  // it brings the tunnel up for the first packet
          all.policies_.push_back(*policy);
        }
      });
  // Of one priority the kernel asks the older first. It lists the younger first.
  std::ranges::reverse(all.policies_);
  std::ranges::stable_sort(all.policies_, {}, &XfrmPolicy::priority);
  Append(all.policies_, DefaultsThatBlock(socket, of_interfaces));
  return all;
}

const XfrmPolicy* XfrmPolicies::FindEnd(const XfrmFlow& flow) const {
  for (const XfrmPolicy& policy : policies_) {
    const Match match = MatchOf(policy, flow);
    const bool ends = policy.blocks || policy.lacks_state;
    if (match == Match::kAll) {
      return ends ? &policy : nullptr;
    }
    if (match == Match::kSome && !ends) {
      return nullptr;  // some pass
    }
  }
  return nullptr;
}

}  // namespace nomad_bridge::rtnl
