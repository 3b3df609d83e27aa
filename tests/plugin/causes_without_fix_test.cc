// Causes that no one command can be right for: inspect says what may be done.
#include "tests/plugin/causes_world.h"

namespace nomad_bridge::test {
namespace {

class CauseWithoutFix : public CausesWorld {};

// Elsewhere it may be at work.
TEST_F(CauseWithoutFix, IsAPublishedAddressThatTheNodeLacks) {
  const json cause = CauseAfter("ip address delete 198.51.100.9/24 dev uplink", Way::kSecond);
  EXPECT_EQ(cause.at("what"), "198.51.100.9, which it is published on, is no address of this node");
  EXPECT_EQ(cause.at("fix"), "");
  EXPECT_EQ(cause.at("advice"),
            "if another node has it now (keepalived), nothing; else: ip address add "
            "198.51.100.9/32 dev uplink");
  EXPECT_TRUE(DoctorsChecks().contains("ports.blocked"));
}

// With a spanning tree every port is so at first, which doctor does not call a fault.
TEST_F(CauseWithoutFix, IsAPortThatSpanningTreeHoldsBack) {
  const json cause = CauseAfter(
      "ip link set nomad type bridge stp_state 1 forward_delay 200; ip link set VETH down; ip link "
      "set VETH up");
  EXPECT_EQ(cause.at("what"),
            Filled("bridge port 'VETH' does not forward: the spanning tree of 'nomad' holds it "
                   "back"));
  EXPECT_EQ(cause.at("fix"), "");
  EXPECT_EQ(cause.at("advice"),
            "wait 4 seconds, twice the forward delay of 'nomad'; if it stays so, look for a loop "
            "behind the port");
  EXPECT_FALSE(DoctorsChecks().contains("ports.blocked"));
  EXPECT_TRUE(Soon([&] { return Answers(Way::kTcp); }));
}

// Which is known as soon as somebody beyond is answered.
TEST_F(CauseWithoutFix, IsAGatewayThatHasGone) {
  ASSERT_TRUE(Answers(Way::kFar));
  host().Must(Words("ip route replace default via 198.51.100.250 dev uplink"));
  const auto cause = [&] {
    EXPECT_FALSE(Answers(Way::kFar, std::chrono::milliseconds(250)));
    return Diagnose(Way::kFar).at("cause");
  };
  EXPECT_TRUE(Soon([&] {
    return cause() ==
           "nobody on 'uplink' answers for the gateway 198.51.100.250: clients beyond get no "
           "answer";
  }));
  EXPECT_TRUE(Soon([&] {
    return !Answers(Way::kFar, std::chrono::milliseconds(250)) &&
           DoctorsChecks().contains("ports.blocked");
  }));
  EXPECT_EQ(DiagnoseFrom(kOutsideIp4).at("cause"), nullptr) << "is on the node's own network";
  outside().Must(Words("ip address add 198.51.100.250/24 dev uplink"));
  EXPECT_TRUE(Soon([&] { return Answers(Way::kFar); }));
  EXPECT_EQ(Diagnose(Way::kFar).at("cause"), nullptr);
}

// Whose interface, address and MAC are as they were: why it does not answer, only it knows.
TEST_F(CauseWithoutFix, IsAContainerThatAnswersNobody) {
  ASSERT_TRUE(Answers(Way::kTcp));
  // Addresses of scope host are not for others.
  container().Shell(
      Filled("sysctl -qw net.ipv4.conf.eth0.arp_ignore=3; ip address del ADDRESS/20 "
             "dev eth0; ip address add ADDRESS/20 dev eth0 scope host; ip route add "
             "default via 172.26.64.1"));
  host().Must(Words("ip neigh flush dev nomad"));
  EXPECT_EQ(Diagnose(Way::kTcp).at("cause"), nullptr) << "nobody has asked";
  json said;
  EXPECT_TRUE(Soon([&] {
    EXPECT_FALSE(Answers(Way::kTcp, std::chrono::milliseconds(250)));
    said = Diagnose(Way::kTcp);
    return said.at("cause") == Filled("nobody on 'nomad' answers for ADDRESS");
  }));
  EXPECT_EQ(At(said, "/causes/0/advice"),
            "see whether it is asked there, and what it answers: nsenter "
            "--net=/run/netns/container tcpdump -ni eth0 arp");
  EXPECT_TRUE(DoctorsChecks().contains("ports.blocked"));
  container().Must(Words("sysctl -qw net.ipv4.conf.eth0.arp_ignore=0"));
  EXPECT_TRUE(Soon([&] { return Answers(Way::kTcp); }));
  EXPECT_EQ(Diagnose(Way::kTcp).at("cause"), nullptr);
  EXPECT_FALSE(DoctorsChecks().contains("ports.blocked"));
}

// It may be right.
TEST_F(CauseWithoutFix, IsAGatewayThatIsPutDown) {
  ASSERT_TRUE(Answers(Way::kFar));
  host().Must(Words(
      Cat("ip neigh replace ", kOutsideIp4, " lladdr 02:00:00:00:00:99 dev uplink nud permanent")));
  EXPECT_FALSE(Answers(Way::kFar, std::chrono::milliseconds(250)));
  const std::string start =
      Cat("a permanent neighbour entry has the gateway ",
          kOutsideIp4,
          " at 02:00:00:00:00:99; if it is elsewhere, clients beyond get no answer: ");
  const std::string said = Output("inspect 8080");
  ASSERT_THAT(said, HasSubstr(start));
  EXPECT_THAT(Output(Cat("inspect 8080 -from ", kOutsideIp4)), Not(HasSubstr(start)));
  const std::size_t fix = said.find(start) + start.size();
  Paste(said.substr(fix, said.find('\n', fix) - fix));
  EXPECT_TRUE(Answers(Way::kFar));
  EXPECT_THAT(Output("inspect 8080"), Not(HasSubstr(start)));
}

// Of two rules that match what is given `ip rule del` takes the first.
TEST_F(CauseWithoutFix, IsARuleBehindOneThatItsSelectorMatchesToo) {
  const json cause = CauseAfter(
      "ip rule add to ADDRESS iif lo fwmark 7 prohibit priority 100; ip rule add to ADDRESS "
      "prohibit priority 100");
  EXPECT_EQ(cause.at("what"), Filled("no packet gets to ADDRESS: ip rule 100 says prohibit"));
  EXPECT_EQ(cause.at("fix"), "");
  EXPECT_EQ(cause.at("advice"), "delete it; those that are there: ip rule show priority 100");
}

// The command that opened the port would cut the others off.
TEST_F(CauseWithoutFix, IsANetworkOfOthersWithinTheSubnet) {
  Node& site = AddContainer("site");
  host().Shell(Cat("ip link add d0 type veth peer name eth0 netns ",
                   site.name(),
                   "; ip link set d0 up; ip address add 172.26.64.70/24 dev d0"));
  site.Shell("ip link set eth0 up; ip address add 172.26.64.77/24 dev eth0");
  EXPECT_FALSE(Answers(Way::kTcp, std::chrono::milliseconds(250)));
  const json cause = At(Diagnose(Way::kTcp), "/causes/0");
  EXPECT_EQ(cause.at("what"), Filled("the route to ADDRESS leads out of 'd0', not of 'nomad'"));
  EXPECT_EQ(cause.at("fix"), "");
  EXPECT_EQ(cause.at("advice"), "another subnet in the conflist, then start its allocations anew");
  EXPECT_FALSE(DoctorsChecks().contains("ports.blocked")) << "bridge.subnet_overlap says so";
}

// A container whose VPN leaves out those that its port is for.
TEST_F(CauseWithoutFix, IsNoVpnThatLeavesOutTheNodesNetwork) {
  container().Shell(
      "ip route add 198.51.100.0/24 via 172.26.64.1; ip link add tun0 type veth peer "
      "name far; ip link set tun0 up; ip link set far up; ip address add 10.8.0.2/24 "
      "dev tun0; ip route replace default via 10.8.0.1");
  EXPECT_TRUE(Answers(Way::kTcp));
  EXPECT_EQ(Diagnose(Way::kTcp).at("cause"), nullptr);
  EXPECT_FALSE(Answers(Way::kFar, std::chrono::milliseconds(250)));
  EXPECT_EQ(Diagnose(Way::kFar).at("cause"),
            "answers leave by 'tun0', not by 'eth0': those to 203.0.113.5");
}

// The addresses that went with it only the node's own configuration knows.
TEST_F(CauseWithoutFix, IsAnUplinkWithoutIpv6) {
  const json cause = CauseAfter("sysctl -w net.ipv6.conf.uplink.disable_ipv6=1", Way::kTcp6);
  EXPECT_EQ(cause.at("what"),
            "'uplink', by which it is reached, has IPv6 switched off: "
            "net/ipv6/conf/uplink/disable_ipv6 is 1");
  EXPECT_EQ(cause.at("fix"), "");
  EXPECT_TRUE(DoctorsChecks().contains("ports.blocked"));
  host().Shell(
      "sysctl -w net/ipv6/conf/uplink/disable_ipv6=0; ip -6 address add "
      "2001:db8:100::1/64 dev uplink nodad");
  host().Must(Words(Cat("ip -6 route add default via ", kOutsideIp6)));
  // Its link-local address is tentative at first.
  EXPECT_TRUE(Soon([&] { return Answers(Way::kTcp6); }));
  EXPECT_EQ(Diagnose(Way::kTcp6).at("cause"), nullptr);
}

TEST_F(CauseWithoutFix, IsAnUplinkWhoseMtuIsTooSmallForIpv6) {
  EXPECT_EQ(
      CauseAfter("ip link set uplink mtu 1000", Way::kTcp6).at("what"),
      "'uplink', by which it is reached, has lost IPv6: its MTU is 1000, and IPv6 needs 1280");
}

TEST_F(CauseWithoutFix, IsAFilterInTheContainer) {
  EXPECT_THAT(Output("inspect 8080"), Not(HasSubstr("filters of tc")));
  container().Shell(
      "tc qdisc add dev eth0 clsact; tc filter add dev eth0 ingress protocol ip prio "
      "5 bpf bytecode '1,6 0 0 2,' direct-action");  // TC_ACT_SHOT
  EXPECT_FALSE(Answers(Way::kTcp, std::chrono::milliseconds(250)));
  EXPECT_THAT(Output("inspect 8080"),
              ::testing::ContainsRegex(
                  "filters of tc, which may drop what they see: nsenter --net=[^ ]+ tc "
                  "filter show dev eth0 ingress\n"));
}

}  // namespace
}  // namespace nomad_bridge::test
