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
         "net/ipv4/ip_default_ttl is 1: its answers to clients beyond the node end on the node",
         ""},
        {"Container6",
         "sysctl -qw net.ipv6.conf.eth0.hop_limit=1",
         "net/ipv6/conf/eth0/hop_limit is 1: its answers to clients beyond the node",
         "",
         Way::kTcp6}}),
    kNameOf);

class HopsToTheNode : public CausesWorld {};

TEST_F(HopsToTheNode, Suffice) {
  container().Must(Words("sysctl -qw net.ipv4.ip_default_ttl=1"));
  EXPECT_EQ(TcpText(host(), kHostIp4, 8080), "hello");
  EXPECT_EQ(RunLine(Cat("inspect -json 8080 -from ", kHostIp4))
                .json.at("attachments")
                .at(0)
                .at("diagnosis")
                .at("cause"),
            nullptr);
}

}  // namespace
}  // namespace nomad_bridge::test
