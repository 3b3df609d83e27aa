// A container whose packets get no further than the node.
#include "tests/plugin/causes_world.h"

namespace nomad_bridge::test {
namespace {

class HopsThatEnd : public CausesWorld {};

TEST_P(HopsThatEnd, AreNamedAndTheirFixHeals) {
  BreakAndHeal(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Hops,
    HopsThatEnd,
    ::testing::ValuesIn(std::vector<Cause>{
        {"Container",
         "sysctl -qw net.ipv4.ip_default_ttl=1",
         "net/ipv4/ip_default_ttl is 1: its answers to clients beyond the node end on the node"},
        {"Container6",
         "sysctl -qw net.ipv6.conf.eth0.hop_limit=1",
         "net/ipv6/conf/eth0/hop_limit is 1: its answers to clients beyond the node",
         kTcp6},
        {"Requests",
         "iptables -t mangle -A PREROUTING -i uplink -j TTL --ttl-set 1",
         "on the node, chain PREROUTING of table ip mangle (rule with handle 2) leaves too few "
         "hops "
         "to what comes for the port"},
        {"Requests6",
         "ip6tables -t mangle -A PREROUTING -i uplink -j HL --hl-set 1",
         "chain PREROUTING of table ip6 mangle (rule with handle 2) leaves too few hops to what "
         "comes for the port",
         kTcp6},
        {"RequestsInNft",
         "nft 'table ip mine { chain p { type filter hook prerouting priority mangle; iifname "
         "uplink ip ttl set 1; }; }'",
         "chain p of table ip mine (rule with handle 2) leaves too few hops to what comes for the "
         "port"},
        {"RequestsInNft6",
         "nft 'table ip6 mine { chain p { type filter hook prerouting priority mangle; iifname "
         "uplink ip6 hoplimit set 1; }; }'",
         "chain p of table ip6 mine (rule with handle 2) leaves too few hops to what comes for the "
         "port",
         kTcp6},
        {"Answers",
         "iptables -t mangle -A PREROUTING -i nomad -j TTL --ttl-set 1",
         "leaves too few hops to what the port answers"},
        {"AnswersOnTheBridge",
         "nft 'table bridge mine { chain p { type filter hook prerouting priority 0; ip ttl set 1; "
         "}; }'",
         "chain p of table bridge mine (rule with handle 2) leaves too few hops to what the port "
         "answers"},
        {"ContainerAnswers",
         "iptables -t mangle -A POSTROUTING -j TTL --ttl-set 1",
         "in the container, chain POSTROUTING of table ip mangle (rule with handle 2) leaves too "
         "few hops to what the port answers"}}),
    kNameOf);

class HopsToTheNode : public CausesWorld {};

TEST_F(HopsToTheNode, Suffice) {
  container().Must(Words("sysctl -qw net.ipv4.ip_default_ttl=1"));
  EXPECT_EQ(TcpText(host(), kHostIp4, 8080), "hello");
  EXPECT_EQ(DiagnoseFrom(kHostIp4).at("cause"), nullptr);
}

// The last one is enough on the network that a packet comes to. Of several rules the last one
// counts.
TEST_F(HopsToTheNode, AreWhatIsLeftAtTheEnd) {
  ExpectNoCauseAfter("iptables -t mangle -A POSTROUTING -o nomad -j TTL --ttl-set 1");
  ExpectNoCauseAfter(
      "iptables -t mangle -A PREROUTING -j TTL --ttl-set 1; iptables -t mangle -A FORWARD -j TTL "
      "--ttl-set 64; iptables -t mangle -A PREROUTING -j TTL --ttl-set 2; iptables -t mangle -F "
      "POSTROUTING");
}

TEST_F(HopsToTheNode, SufficeOnItsNetworkOnly) {
  host().Must(Words("iptables -t mangle -A POSTROUTING -o uplink -j TTL --ttl-set 1"));
  EXPECT_TRUE(Answers(Way::kTcp));
  EXPECT_EQ(DiagnoseFrom(kOutsideIp4).at("cause"), nullptr);
  EXPECT_THAT(Diagnose(Way::kFar).at("cause").dump(), HasSubstr("leaves too few hops to what the"));
}

}  // namespace
}  // namespace nomad_bridge::test
