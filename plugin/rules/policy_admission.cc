#include "plugin/rules/policy_admission.h"

#include <netinet/icmp6.h>
#include <netinet/in.h>

#include "firewall/table.h"

namespace nomad_bridge::rules {
namespace {

using firewall::kFamilies;
using firewall::SetName;
using Point = nft::Hook::Point;

constexpr const char* kJudgeToNode = "judge_to_node";
// Before our forward chain, whose accepts are for what is let pass here.
constexpr int kBeforeFilter = -2;

std::vector<firewall::SetRow> Sets() {
  using enum nft::Type;
  return {{kPolicyIn, {kIpv4Addr}, {kVerdict}, firewall::Role::kForwarding},
          {kPolicyOut, {kIpv4Addr}, {kVerdict}, firewall::Role::kForwarding}};
}

std::vector<firewall::SetRow> Shapes() {
  using enum nft::Type;
  return {{kSelected, {kIpv4Addr}, {}, firewall::Role::kForwarding},
          {kPrefixes, {kIpv4Addr}, {}, firewall::Role::kForwarding}};
}

// The kernel's tables keep established connections for us: what has begun goes on.
nft::Chain Admission(const char* name, Point point, const char* judge) {
  return {.name = name,
          .hook = nft::Hook{.type = "filter", .point = point, .priority = kBeforeFilter},
          .rules = {
              // ct state new,untracked goto <judge>
              nft::Rule().CtState(nft::kCtNew | nft::kCtUntracked).Goto(judge),
          }};
}

// Neighbour discovery and multicast listeners, which conntrack never tracks: without them no
// address is found, so that refusing them refuses everything.
std::vector<nft::Rule> LetNeighboursBeFound() {
  const auto icmpv6 = [] { return nft::Rule().Ipv6().L4Proto(IPPROTO_ICMPV6); };
  return {
      // icmpv6 type 130-137 return: multicast listeners, routers, neighbours, redirects
      icmpv6().Between(nft::kIcmpv6Type, {MLD_LISTENER_QUERY}, {ND_REDIRECT}).Return(),
      // icmpv6 type mld2-listener-report return
      icmpv6().Is(nft::kIcmpv6Type, {143}).Return(),
  };
}

std::vector<nft::Rule> JudgeSenders() {
  std::vector<nft::Rule> rules = LetNeighboursBeFound();
  for (const Family family : kFamilies) {
    // ip saddr vmap @out4
    rules.push_back(nft::Rule().Only(family).SaddrVmap(SetName(kPolicyOut, family)));
  }
  return rules;
}

nft::Chain Judge() {
  nft::Chain chain = {.name = kJudge, .rules = LetNeighboursBeFound()};
  for (const Family family : kFamilies) {
    // iifname != @bridges ip saddr @alloc4 drop
    // A machine elsewhere that takes an allocation's address for its own would have its label.
    chain.rules.push_back(nft::Rule()
                              .IifnameNotIn(firewall::kBridges)
                              .Only(family)
                              .SaddrIn(SetName(firewall::kAlloc, family))
                              .Drop());
  }
  // iifname @gateways oifname @gateways ip6 daddr fe80::/10 reject with icmpx admin-prohibited
  // Link-local addresses, which every container has besides, are in no set.
  chain.rules.push_back(nft::Rule()
                            .IifnameIn(firewall::kGateways)
                            .OifnameIn(firewall::kGateways)
                            .Ipv6()
                            .Daddr(firewall::Prefix("fe80::/10"))
                            .RejectAdminProhibited());
  for (const Family family : kFamilies) {
    // ip saddr vmap @out4
    chain.rules.push_back(nft::Rule().Only(family).SaddrVmap(SetName(kPolicyOut, family)));
  }
  for (const Family family : kFamilies) {
    // ip daddr vmap @in4
    chain.rules.push_back(nft::Rule().Only(family).DaddrVmap(SetName(kPolicyIn, family)));
  }
  return chain;
}

// TCP gets a reset: ICMP's error comes back while a connect(2) still holds its socket, which hears
// of it only with the next SYN, a second later. To the port of a bridge the kernel sends a reset
// past what would translate its source back: made of a SYN to where the client has sent it, it
// comes from there by itself.
nft::Chain Refuse() {
  nft::Chain chain = {.name = kRefuse};
  for (const Family family : kFamilies) {
    // ip daddr set ct original ip daddr tcp dport set ct original proto-dst reject with tcp reset
    chain.rules.push_back(
        nft::Rule().L4Proto(IPPROTO_TCP).Only(family).RestoreTcpDestination().RejectTcpReset());
  }
  // reject with icmpx admin-prohibited
  chain.rules.push_back(nft::Rule().RejectAdminProhibited());
  return chain;
}

std::vector<nft::Chain> Chains(int /*accept_mark_bit*/) {
  return {Refuse(),
          {.name = kJudgeToNode, .rules = JudgeSenders()},
          Judge(),
          Admission("admit", Point::kForward, kJudge),
          Admission("admit_to_node", Point::kInput, kJudgeToNode)};
}

}  // namespace

const firewall::Contributor kPolicy = {nft::TableFamily::kInet, &Sets, &Chains};

const firewall::Contributor kPolicySetShapes = {nft::TableFamily::kInet, &Shapes, [](int) {
                                                  return std::vector<nft::Chain>();
                                                }};

}  // namespace nomad_bridge::rules
