// What is forwarded is asked about three times: as it came, before its destination is translated,
// as it leaves, and, if its source is translated, again after that.
#include <netinet/in.h>

#include "base/text.h"
#include "plugin/causes/in_container.h"

namespace nomad_bridge::causes {
namespace {

using rtnl::XfrmFlow;
using rtnl::XfrmWay;

XfrmFlow RequestTo(const std::optional<Ip>& destination,
                   std::uint16_t port,
                   const Journey& journey,
                   XfrmWay way) {
  return {.way = way,
          .family = journey.family(),
          .source = journey.is_client_named ? journey.client : std::nullopt,
          .destination = destination,
          .protocol = static_cast<std::uint8_t>(journey.port.protocol),
          .source_port = kClientPort,
          .destination_port = port};
}

XfrmFlow AnswerFrom(const std::optional<Ip>& source,
                    std::uint16_t port,
                    const Journey& journey,
                    XfrmWay way) {
  XfrmFlow flow = RequestTo(std::nullopt, port, journey, way);
  std::swap(flow.source, flow.destination);
  std::swap(flow.source_port, flow.destination_port);
  flow.source = source;
  return flow;
}

bool IsRequest(const XfrmFlow& flow) {
  return flow.source_port == kClientPort;
}

// `flow` as ip-xfrm(8) takes it.
std::string WordsOf(const XfrmFlow& flow, const Journey& journey) {
  const auto end = [&](const std::optional<Ip>& address) {
    return address                        ? address->Text()
           : flow.family == Family::kIpv4 ? std::string("0.0.0.0/0")
                                          : std::string("::/0");
  };
  return Cat(
      Format("src {} dst {} proto {}", end(flow.source), end(flow.destination), journey.Protocol()),
      IsRequest(flow) ? Cat(" dport ", flow.destination_port) : Cat(" sport ", flow.source_port),
      " dir ",
      Text(flow.way));
}

// What is asked first of all lets the packets pass that are meant; there is nothing before 0.
Fix FixOf(const rtnl::XfrmPolicy& policy,
          const XfrmFlow& flow,
          const Journey& journey,
          const std::string& prefix) {
  return policy.lacks_state ? Fix::Advice("bring up the tunnel that it asks for")
         : policy.priority > 0
             ? Fix(Format("{}ip xfrm policy update {} priority {}",
                          prefix,
                          WordsOf(flow, journey),
                          policy.priority - 1))
             : Fix::Advice(
                   Format("if it is not meant: {}ip xfrm policy delete {}", prefix, policy.Text()));
}

// The ways for which IPsec's default keeps a machine from finding its neighbours on a link: of
// IPv6 it judges that, too.
std::vector<XfrmWay> WaysWithoutNeighbours(const rtnl::XfrmPolicies& policies,
                                           const Journey& journey) {
  std::vector<XfrmWay> ways;
  for (const XfrmWay way : {XfrmWay::kIn, XfrmWay::kOut}) {
    const rtnl::XfrmPolicy* const end =
        policies.FindEnd({.way = way, .family = Family::kIpv6, .protocol = IPPROTO_ICMPV6});
    if (journey.family() == Family::kIpv6 && end != nullptr && end->is_default) {
      ways.push_back(way);
    }
  }
  return ways;
}

// Of all that goes the same way: who blocks by default has a policy for each thing that may pass.
Fix FixOfDefault(const rtnl::XfrmPolicies& policies,
                 const std::vector<XfrmFlow>& flows,
                 const Journey& journey,
                 const std::string& prefix) {
  std::string commands;
  const auto allow = [&](const std::string& words) {
    commands +=
        Format("{}{}ip xfrm policy update {}", commands.empty() ? "" : " && ", prefix, words);
  };
  for (const XfrmFlow& flow : flows) {
    const rtnl::XfrmPolicy* const end = policies.FindEnd(flow);
    if (end != nullptr && end->is_default) {
      allow(WordsOf(flow, journey));
    }
  }
  for (const XfrmWay way : WaysWithoutNeighbours(policies, journey)) {
    allow(Format("src ::/0 dst ::/0 proto ipv6-icmp dir {}", Text(way)));
  }
  return commands;
}

// "the IPsec policy 'src 10.0.0.0/8 dst 0.0.0.0/0 dir fwd' blocks"
std::string WhatEnds(const rtnl::XfrmPolicy& policy) {
  return policy.is_default
             ? Format("IPsec's default for what goes '{}' blocks", Text(policy.way))
             : Format("the IPsec policy '{}' {}",
                      policy.Text(),
                      policy.blocks ? "blocks" : "asks for a tunnel that is not up: it drops");
}

// The first of `flows` that a policy ends.
Causes FindFirst(const rtnl::XfrmPolicies& policies,
                 const std::vector<XfrmFlow>& flows,
                 const Journey& journey,
                 std::string_view place,
                 const std::string& prefix) {
  for (const XfrmFlow& flow : flows) {
    if (const rtnl::XfrmPolicy* const policy = policies.FindEnd(flow)) {
      return {{.text = Format("{}, {} what {}",
                              place,
                              WhatEnds(*policy),
                              IsRequest(flow) ? "comes for the port" : "the port answers"),
               .fix = policy->is_default ? FixOfDefault(policies, flows, journey, prefix)
                                         : FixOf(*policy, flow, journey, prefix)}};
    }
  }
  if (const std::vector<XfrmWay> ways = WaysWithoutNeighbours(policies, journey); !ways.empty()) {
    return {{.text = Format("{}, IPsec's default for what goes '{}' blocks what finds neighbours",
                            place,
                            Text(ways.front())),
             .fix = FixOfDefault(policies, flows, journey, prefix)}};
  }
  return {};
}

}  // namespace

Causes FindInXfrm(NodeFacts& facts, const Journey& journey) {
  if (!journey.uplink) {
    return {};
  }
  const portmap::DnatEntry& port = journey.port;
  return FindFirst(facts.Xfrm(),
                   {RequestTo(journey.node, port.host_port, journey, XfrmWay::kForward),
                    RequestTo(port.container_ip, port.container_port, journey, XfrmWay::kOut),
                    AnswerFrom(port.container_ip, port.container_port, journey, XfrmWay::kForward),
                    AnswerFrom(port.container_ip, port.container_port, journey, XfrmWay::kOut),
                    AnswerFrom(journey.node, port.host_port, journey, XfrmWay::kOut)},
                   journey,
                   "on the node",
                   "");
}

Causes FindInXfrmInside(const rtnl::XfrmPolicies& inside, const Journey& journey) {
  const portmap::DnatEntry& port = journey.port;
  return FindFirst(inside,
                   {RequestTo(port.container_ip, port.container_port, journey, XfrmWay::kIn),
                    AnswerFrom(port.container_ip, port.container_port, journey, XfrmWay::kOut)},
                   journey,
                   "in the container",
                   InsideFix(*journey.record, ""));
}

}  // namespace nomad_bridge::causes
