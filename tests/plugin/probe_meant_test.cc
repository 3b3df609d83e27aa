// What somebody means: bans of clients, and routes that drop. It is named as the cause, and no
// command undoes it.
#include "tests/plugin/probe_world.h"

namespace nomad_bridge::test {
namespace {

class IntendedBlock : public ProbeWorld {};

TEST_P(IntendedBlock, IsNamedAndNotUndone) {
  ASSERT_NE(GetParam().advice, "");
  BreakAndHeal(GetParam());
  const json said = Diagnose(GetParam().way);
  for (const json& cause : said.at("causes")) {
    EXPECT_EQ(cause.at("fix"), "") << cause;
  }
  EXPECT_THAT(RunLine("doctor containers ports.blocked"), Exits(0));
}

INSTANTIATE_TEST_SUITE_P(
    Clients,
    IntendedBlock,
    ::testing::ValuesIn(std::vector<Broken>{
        {"NullRouteOfAClientBesideStrictReversePath",
         "sysctl -w net.ipv4.conf.uplink.rp_filter=1; ip route add blackhole 203.0.113.5",
         "answers do not get to 203.0.113.5: a route there is a blackhole",
         kFar,
         "route",
         "ip route get 203.0.113.5"},
        {"BlackholeRuleForAClient",
         "ip rule add from 203.0.113.5 blackhole priority 100",
         "a route there is a blackhole",
         kFar,
         "route",
         "ip rule show"},
        {"ProhibitRuleForAnswers",
         "ip rule add to 203.0.113.5 prohibit priority 100",
         "answers do not get to 203.0.113.5: a route or rule there prohibits it",
         kFar,
         "answer",
         "ip rule show"},
        {"BannedByASetInFrontOfTheChain",
         "nft 'table inet ids { set banned { type ipv4_addr; elements = { 203.0.113.5 }; }; chain "
         "drop_all { counter drop; }; chain c { type filter hook forward priority -10; ip saddr "
         "@banned jump drop_all; }; }'",
         "chain drop_all of table inet ids (rule with handle",
         kFar,
         "forward",
         "the rule is about clients' addresses"},
        {"BannedByAMarkOfTheClient",
         "iptables -t mangle -A PREROUTING -s 203.0.113.5 -j MARK --set-mark 9; iptables -I "
         "FORWARD "
         "-m mark --mark 9/0xff -j DROP",
         "chain FORWARD of table ip filter",
         kFar,
         "forward",
         "the rule is about clients' addresses"},
        {"BannedForAnswers",
         "nft 'table inet ids { set banned { type ipv4_addr; elements = { 203.0.113.5 }; }; chain "
         "c "
         "{ type filter hook postrouting priority 200; ip daddr @banned drop; }; }'",
         "ip daddr @banned drop",
         kFar,
         "answer",
         "the rule is about clients' addresses"},
        {"ContainerBlackholeInsteadOfTheDefaultRoute",
         "ip route replace blackhole default; ip route del default via 172.26.64.1 || true",
         "in the container what the port answers does not get to 198.41.0.4: a route there is a "
         "blackhole",
         kTcp,
         "service",
         "ip rule show"},
    }),
    kNameOf);

class IntendedBan : public ProbeWorld {};

// The clients that doctor stands for are among those that somebody keeps out.
TEST_F(IntendedBan, IsNoFaultIfItCoversDoctorsClients) {
  host().Nft(
      "table inet geo { set banned { type ipv4_addr; flags interval; elements = { 198.41.0.0/16 }; "
      "}; chain c { type filter hook prerouting priority -150; ip saddr @banned drop; }; }");
  EXPECT_THAT(RunLine("doctor ports.blocked ports.probe"), Exits(0));
  EXPECT_EQ(DiagnoseFrom(kFarIp4).at("cause"), nullptr);
}

}  // namespace
}  // namespace nomad_bridge::test
