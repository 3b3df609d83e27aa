#include "plugin/rules/policy_admission.h"

#include <netinet/icmp6.h>
#include <netinet/in.h>

#include "base/list.h"
#include "firewall/table.h"
#include "netlink/conntrack/conntrack.h"

namespace nomad_bridge::rules {
namespace {

using firewall::kFamilies;
using firewall::SetName;
using Point = nft::Hook::Point;

constexpr const char* kJudgeToNode = "judge_to_node";
constexpr const char* kUnknown = "unknown";
constexpr const char* kGoesOn = "goes_on";
constexpr const char* kAnswers = "answers";

firewall::SetRow FlowSet(std::string_view noun) {
  using enum nft::Type;
  return {.noun = noun,
          .key = {kIpv4Addr, kIpv4Addr, kInetProto, kInetService},
          .data = {},
          .role = firewall::Role::kJudged,
          .flags = nft::kDynamic,
          .size = kMaxFlows,
          .timeout_ms = kFlowTimeoutMs};
}

std::vector<firewall::SetRow> Sets() {
  using enum nft::Type;
  using firewall::Role;
  return {{kPolicyIn, {kIpv4Addr}, {kVerdict}, Role::kJudged},
          {kPolicyOut, {kIpv4Addr}, {kVerdict}, Role::kJudged},
          {kAnswersIn, {kIpv4Addr}, {kVerdict}, Role::kJudged},
          {kAnswersOut, {kIpv4Addr}, {kVerdict}, Role::kJudged},
          {kHere, {kIpv4Addr}, {}, Role::kJudged},
          {kSameBridge, {kIfname, kIfname}, {}, Role::kAny},
          {kJudged, {kIpv4Addr}, {}, Role::kJudged},
          {kSourceInterfaces, {kIpv4Addr, kIfname}, {}, Role::kJudged},
          {.noun = kCut,
           .key = {kCtId},
           .data = {},
           .role = Role::kNone,
           .flags = nft::kDynamic,
           .size = kMaxCut,
           .timeout_ms = kCutTimeoutMs},
          FlowSet(kRefusedFlows),
          FlowSet(kAuditedFlows)};
}

std::vector<firewall::SetRow> Shapes() {
  using enum nft::Type;
  return {{kSelected, {kIpv4Addr}, {}, firewall::Role::kJudged},
          {kPrefixes, {kIpv4Addr}, {}, firewall::Role::kJudged}};
}

// Judges only new connections. Connections that conntrack knows go on.
nft::Chain Admission(const char* name, Point point, const char* judge) {
  return {.name = name,
          .hook = nft::Hook{.type = "filter", .point = point, .priority = kAdmissionPriority},
          .rules = {
              // ct state invalid,new,untracked goto <judge>
              nft::Rule().CtState(nft::kCtNew | nft::kCtUntracked | nft::kCtInvalid).Goto(judge),
              // tcp flags syn / syn,ack goto <judge>
              // Conntrack may take a SYN for part of an old connection with the same ports. A
              // packet that looked like an answer may have created that connection. So every SYN
              // is judged.
              nft::Rule().TcpBegins().Goto(judge),
              // ct id @cut update @cut { ct id timeout 6d } goto refuse
              nft::Rule().CtIdIn(kCut).KeepCtIdIn(kCut, kCutTimeoutMs).Goto(kRefuse),
          }};
}

// Returns the rules for packets that are not judged. Neighbour discovery and multicast listener
// messages pass. Without them nobody finds an address, so to refuse them is to refuse everything.
// Conntrack never tracks them.
std::vector<nft::Rule> Unjudged() {
  const auto icmpv6 = [] { return nft::Rule().Ipv6().L4Proto(IPPROTO_ICMPV6); };
  return {
      // icmpv6 type 130-137 return: multicast listeners, routers, neighbours, redirects
      icmpv6().Between(nft::kIcmpv6Type, {MLD_LISTENER_QUERY}, {ND_REDIRECT}).Return(),
      // icmpv6 type mld2-listener-report return
      icmpv6().Is(nft::kIcmpv6Type, {143}).Return(),
      // ct state invalid goto unknown
      nft::Rule().CtState(nft::kCtInvalid).Goto(kUnknown),
  };
}

// Drops packets that belong to no connection. They must not pass as the beginning of one, because a
// FIN scan would find open ports.
nft::Chain Unknown() {
  nft::Chain chain = {.name = kUnknown};
  for (const Family family : kFamilies) {
    const std::string judged = SetName(kJudged, family);
    // ip saddr @judged4 drop
    chain.rules.push_back(nft::Rule().Only(family).SaddrIn(judged).Drop());
    // ip daddr @judged4 drop
    chain.rules.push_back(nft::Rule().Only(family).DaddrIn(judged).Drop());
  }
  return chain;
}

std::vector<nft::Rule> JudgeSource() {
  std::vector<nft::Rule> rules;
  rules.reserve(kFamilies.size());
  for (const Family family : kFamilies) {
    // ip saddr vmap @out4
    rules.push_back(nft::Rule().Only(family).SaddrVmap(SetName(kPolicyOut, family)));
  }
  return rules;
}

// Reached by packets that policies let pass. A new connection is never one that was cut, even if
// conntrack gives it the same id.
nft::Rule Uncut() {
  // delete @cut { ct id }
  return nft::Rule().DeleteCtIdFrom(kCut);
}

nft::Chain JudgeToNode() {
  nft::Chain chain = {.name = kJudgeToNode, .rules = Unjudged()};
  Append(chain.rules, JudgeSource());
  chain.rules.push_back(Uncut());
  return chain;
}

// Drops packets that have an allocation's address as source but come in by another interface.
// Otherwise policies would treat any machine that uses the address like the allocation.
std::vector<nft::Rule> DropBorrowed() {
  std::vector<nft::Rule> rules;
  rules.reserve(kFamilies.size());
  for (const Family family : kFamilies) {
    // ip saddr @here4 ip saddr . iifname != @comes_by4 drop
    rules.push_back(nft::Rule()
                        .Only(family)
                        .SaddrIn(SetName(kHere, family))
                        .SaddrAndIifnameNotIn(SetName(kSourceInterfaces, family))
                        .Drop());
  }
  return rules;
}

// The rules with the maps come as early as possible. If policies are switched while a packet is
// between the first rule and the maps, the packet finds the new chains empty.
nft::Chain Judge() {
  nft::Chain chain = {.name = kJudge, .rules = Unjudged()};
  // tcp flags & (syn | ack) != syn jump goes_on
  chain.rules.push_back(nft::Rule().TcpGoesOn().Jump(kGoesOn));
  Append(chain.rules, JudgeSource());
  for (const Family family : kFamilies) {
    // ip daddr vmap @in4
    chain.rules.push_back(nft::Rule().Only(family).DaddrVmap(SetName(kPolicyIn, family)));
  }
  Append(chain.rules, DropBorrowed());
  chain.rules.push_back(Uncut());
  return chain;
}

// Judges a TCP packet of a connection that conntrack does not know: the connection began before the
// bridge handed its packets over, or it was cut or forgotten. The ports show who opened it. If they
// do not, policies must allow the connection in both directions.
nft::Chain UnknownTcp() {
  constexpr std::uint16_t kFirstOfClients = conntrack::kFirstClientPort;
  constexpr std::uint16_t kLastOfServers = kFirstOfClients - 1;
  constexpr std::uint16_t kLast = 65535;
  nft::Chain chain = {.name = kGoesOn, .rules = DropBorrowed()};
  Append(chain.rules,
         {
             // th sport 32768-65535 th dport 0-32767 return
             nft::Rule().Sport(kFirstOfClients, kLast).Dport(0, kLastOfServers).Return(),
             // jump answers
             nft::Rule().Jump(kAnswers),
             // th sport 0-32767 th dport 32768-65535 accept
             nft::Rule().Sport(0, kLastOfServers).Dport(kFirstOfClients, kLast).Accept(),
         });
  return chain;
}

// Judges a packet as an answer, by the rules for the connection from its destination to its source.
nft::Chain Answers() {
  nft::Chain chain = {.name = kAnswers};
  for (const Family family : kFamilies) {
    // ip daddr vmap @out_answers4
    chain.rules.push_back(nft::Rule().Only(family).DaddrVmap(SetName(kAnswersOut, family)));
  }
  for (const Family family : kFamilies) {
    // ip saddr vmap @in_answers4
    chain.rules.push_back(nft::Rule().Only(family).SaddrVmap(SetName(kAnswersIn, family)));
  }
  return chain;
}

// TCP is refused with a reset. An ICMP error would arrive while connect(2) still holds its socket,
// so the client would notice it only with its next SYN, a second later. Conntrack does not
// translate the source of a reset that the kernel sends to a bridge port. So the rule first sets
// the SYN's destination back to the address that the client used, and the reset comes from that
// address. The rule does the same for an answer of a connection that was cut.
nft::Chain Refuse() {
  nft::Chain chain = {.name = kRefuse};
  for (const nft::Rule::Way way : {nft::Rule::Way::kOriginal, nft::Rule::Way::kReply}) {
    for (const Family family : kFamilies) {
      // ct direction original
      //   ip daddr set ct original ip daddr tcp dport set ct original proto-dst
      //   reject with tcp reset
      chain.rules.push_back(nft::Rule()
                                .L4Proto(IPPROTO_TCP)
                                .CtDirection(way)
                                .Only(family)
                                .RestoreTcpDestination(way)
                                .RejectTcpReset());
    }
  }
  // reject with icmpx admin-prohibited
  chain.rules.push_back(nft::Rule().RejectAdminProhibited());
  return chain;
}

std::vector<nft::Rule> RecordFlows(std::string_view noun) {
  std::vector<nft::Rule> rules;
  for (const Family family : kFamilies) {
    const std::string set = SetName(noun, family);
    const auto icmp =
        static_cast<std::uint8_t>(family == Family::kIpv4 ? +IPPROTO_ICMP : +IPPROTO_ICMPV6);
    // meta l4proto != icmp
    //   update @refused_flows4 { ip saddr . ip daddr . meta l4proto . th dport timeout 1h counter }
    rules.push_back(nft::Rule().Only(family).L4ProtoNot(icmp).NoteFlow(
        set, nft::Rule::HasPort::kYes, kFlowTimeoutMs));
    // The same for ICMP, with 0 for the port.
    rules.push_back(nft::Rule().Only(family).L4Proto(icmp).NoteFlow(
        set, nft::Rule::HasPort::kNo, kFlowTimeoutMs));
  }
  return rules;
}

nft::Chain RecordAnd(const char* name, std::string_view noun, std::vector<nft::Rule> decision) {
  nft::Chain chain = {.name = name, .rules = RecordFlows(noun)};
  Append(chain.rules, std::move(decision));
  return chain;
}

// Without policies, the rules of iptables may not see packets between two ports of a bridge. With
// them they do, and must not drop what they let pass before: packets from or to link-local
// addresses, and addresses that allocations have added. Our chains have judged these packets.
nft::Chain SameBridge(int mark_bit) {
  // Added to firewall's chain.
  return {.name = firewall::kForwardChain,
          .rules = {
              // iifname . oifname @same_bridge meta mark set meta mark | 0x1000 accept
              nft::Rule().IfnamesIn(kSameBridge).SetMarkBit(mark_bit).Accept(),
          }};
}
nft::Chain UnmarkSameBridge(int mark_bit) {
  return {
      .name = firewall::kUnmark,
      .rules = {
          // meta mark & 0x1000 == 0x1000 iifname . oifname @same_bridge
          //   meta mark set meta mark & 0xffffefff accept
          nft::Rule().MarkBitIsSet(mark_bit).IfnamesIn(kSameBridge).ClearMarkBit(mark_bit).Accept(),
      }};
}

// Table bridge, which judges what goes to an added address, knows no connections.
nft::Chain MarkAnswers() {
  nft::Chain chain = {.name = firewall::kTranslated};
  for (const Family family : kFamilies) {
    // ct state established,related ip daddr != @here4 iifname . iifname @same_bridge
    //   meta priority set 6e62:6120
    chain.rules.push_back(nft::Rule()
                              .CtState(nft::kCtEstablished | nft::kCtRelated)
                              .Only(family)
                              .DaddrNotIn(SetName(kHere, family))
                              .IifnameTwiceIn(kSameBridge)
                              .SetPriority(kAnswerPriority));
  }
  return chain;
}

std::vector<nft::Chain> Chains(int accept_mark_bit) {
  return {MarkAnswers(),
          SameBridge(accept_mark_bit),
          UnmarkSameBridge(accept_mark_bit),
          Refuse(),
          RecordAnd(kRecordAndRefuse, kRefusedFlows, {nft::Rule().Goto(kRefuse)}),
          RecordAnd(kRecordAndDrop, kRefusedFlows, {nft::Rule().Drop()}),
          RecordAnd(kRecordAudited, kAuditedFlows, {}),
          Unknown(),
          Answers(),
          UnknownTcp(),
          JudgeToNode(),
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
