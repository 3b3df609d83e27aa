// Policies of IPsec that end what a published port gets or answers, and those that do not.
#include "tests/plugin/causes_world.h"

namespace nomad_bridge::test {
namespace {

class XfrmThatEnds : public CausesWorld {};

TEST_P(XfrmThatEnds, IsNamedAndItsFixHeals) {
  BreakAndHeal(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Policies,
    XfrmThatEnds,
    ::testing::ValuesIn(std::vector<Cause>{
        {"Forward",
         "ip xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 dir fwd priority 9 action block",
         "on the node, the IPsec policy 'src 0.0.0.0/0 dst 0.0.0.0/0 dir fwd' blocks what comes "
         "for the port"},
        {"ForwardToTheNode",
         "ip xfrm policy add src 0.0.0.0/0 dst 198.51.100.1 proto tcp dport 8080 dir fwd priority "
         "9 action block",
         "blocks what comes for the port"},
        {"Out",
         "ip xfrm policy add src 0.0.0.0/0 dst ADDRESS proto tcp dport 80 dir out priority 9 "
         "action block",
         "blocks what comes for the port"},
        {"AnswersForward",
         "ip xfrm policy add src ADDRESS dst 0.0.0.0/0 dir fwd priority 9 action block",
         "blocks what the port answers"},
        {"AnswersOut",
         "ip xfrm policy add src 198.51.100.1 dst 0.0.0.0/0 proto tcp sport 8080 dir out priority "
         "9 action block",
         "blocks what the port answers"},
        {"Ipv6",
         "ip xfrm policy add src ::/0 dst ::/0 dir fwd priority 9 action block",
         "blocks what comes for the port",
         kTcp6},
        {"OfNamed",
         "ip xfrm policy add src 203.0.113.0/24 dst 0.0.0.0/0 dir fwd priority 9 action block",
         "the IPsec policy 'src 203.0.113.0/24 dst 0.0.0.0/0 dir fwd' blocks what comes",
         kFar},
        {"DefaultForward",
         "ip xfrm policy setdefault fwd block",
         "on the node, IPsec's default for what goes 'fwd' blocks what comes for the port"},
        {"DefaultOut6",
         "ip xfrm policy setdefault out block; ip -6 neigh flush dev nomad",
         "on the node, IPsec's default for what goes 'out' blocks what comes for the port",
         kTcp6},
        {"DefaultIn6",
         "ip xfrm policy setdefault in block; ip -6 neigh flush dev nomad",
         "on the node, IPsec's default for what goes 'in' blocks what finds neighbours",
         kTcp6},
        {"DefaultOfAnswers",
         "ip xfrm policy setdefault fwd block; ip xfrm policy add src 0.0.0.0/0 dst 198.51.100.1 "
         "proto tcp dport 8080 dir fwd",
         "on the node, IPsec's default for what goes 'fwd' blocks what the port answers"},
        {"ContainerDefault",
         "ip xfrm policy setdefault in block out block",
         "in the container, IPsec's default for what goes 'in' blocks what comes for the port"},
        {"ContainerIn",
         "ip xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 dir in priority 9 action block",
         "in the container, the IPsec policy 'src 0.0.0.0/0 dst 0.0.0.0/0 dir in' blocks what "
         "comes"}}),
    kNameOf);

// Of what goes beyond the node.
constexpr const char* kTunnel =
    "ip xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 dir out tmpl src 198.51.100.1 dst 203.0.113.1 "
    "proto esp mode tunnel; ip xfrm policy add src 0.0.0.0/0 dst ADDRESS dir out priority 0";

// They have no fix that can be pasted.
class XfrmOfTunnels : public CausesWorld {};

TEST_F(XfrmOfTunnels, IsNamedWhereNoneIsUp) {
  const json cause = CauseAfter(kTunnel);
  EXPECT_THAT(cause.at("what"), HasSubstr("asks for a tunnel that is not up: it drops what"));
  EXPECT_EQ(cause.at("advice"), "bring up the tunnel that it asks for");
  EXPECT_EQ(cause.at("fix"), "");
  EXPECT_TRUE(DoctorsChecks().contains("ports.blocked"));
}

// As IKE daemons do: the kernel tells them of the first packet that needs the tunnel.
TEST_F(XfrmOfTunnels, IsNotNamedWhereADaemonBringsItUp) {
  const auto is_listening = [&] {
    return host()
               .Run({"grep", "-qE", "^[0-9a-f]+ +6 +[0-9]+ +0*1 ", "/proc/net/netlink"})
               .exit_code == 0;
  };
  const Process daemon = Process::Start(
      {.argv = {"ip", "xfrm", "monitor", "acquire"}, .in_child = [&] { host().Enter(); }});
  ASSERT_TRUE(Soon(is_listening));
  host().Shell(Filled(kTunnel));
  ExpectNoCause();
}

TEST_F(XfrmOfTunnels, FirstOfAllHasAnAdvice) {
  const json cause =
      CauseAfter("ip xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 dir fwd action block");
  EXPECT_EQ(cause.at("advice"),
            "if it is not meant: ip xfrm policy delete src 0.0.0.0/0 dst 0.0.0.0/0 dir fwd");
}

class XfrmThatEndsNothing : public CausesWorld {};

TEST_P(XfrmThatEndsNothing, IsNotNamed) {
  ExpectNoCauseAfter(GetParam().damage);
}

INSTANTIATE_TEST_SUITE_P(
    Policies,
    XfrmThatEndsNothing,
    ::testing::ValuesIn(std::vector<Cause>{
        {"OfOthers",
         "ip xfrm policy add src 203.0.113.0/24 dst 0.0.0.0/0 dir fwd action block; ip xfrm policy "
         "add src 0.0.0.0/0 dst 10.9.0.0/16 dir out tmpl src 198.51.100.1 dst 203.0.113.1 proto "
         "esp mode tunnel; ip xfrm policy add src 10.9.0.0/16 dst 0.0.0.0/0 dir fwd tmpl src "
         "203.0.113.1 dst 198.51.100.1 proto esp mode tunnel"},
        {"BehindAnotherThatAllows",
         "ip xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 dir fwd priority 9 action block; ip xfrm "
         "policy add src 0.0.0.0/0 dst 198.51.100.0/24 dir fwd priority 3; ip xfrm policy add src "
         "ADDRESS dst 0.0.0.0/0 dir fwd priority 3"},
        {"OfAnotherPort",
         "ip xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 proto tcp dport 443 dir fwd action block"},
        {"DefaultOfWhatTheNodeGets",
         "ip xfrm policy setdefault in block; ip xfrm policy add src ::/0 dst ::/0 proto ipv6-icmp "
         "dir in"},
        {"DefaultBehindOnesThatAllow",
         "ip xfrm policy setdefault fwd block; ip xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 dir "
         "fwd; ip xfrm policy add src ::/0 dst ::/0 dir fwd"},
        {"OfAnXfrmInterface",
         "ip xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 dir fwd action block if_id 42; ip xfrm "
         "policy add src 0.0.0.0/0 dst 0.0.0.0/0 dir out action block if_id 42"},
        {"Optional",
         "ip xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 dir fwd tmpl src 203.0.113.1 dst "
         "198.51.100.1 proto esp mode tunnel level use"},
        {"WhatTheNodeGets", "ip xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 dir in action block"}}),
    kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
