// A bridge that somebody has renamed, and what is left of it. Our rules know it by its name.
#include "tests/plugin/causes_world.h"

namespace nomad_bridge::test {
namespace {

const std::string kRename =
    "ip link set nomad down; ip link set nomad name old; ip link set old up; ";

class RenamedBridge : public CausesWorld {};

TEST_P(RenamedBridge, IsNamedAndItsFixHeals) {
  BreakAndHeal(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Bridges,
    RenamedBridge,
    ::testing::ValuesIn(std::vector<Cause>{
        {"Ipv4",
         Cat("iptables -P FORWARD DROP; ", kRename),
         "bridge 'nomad' was renamed to 'old'",
         kTcp,
         "bridge.intact"},
        {"Ipv6",
         Cat("ip6tables -P FORWARD DROP; ", kRename, "ip address add fd00:26::1/64 dev old nodad"),
         "bridge 'nomad' was renamed to 'old'",
         kTcp6,
         "bridge.intact"},
        {"InRulesOfOthers",
         Cat("nft 'table inet mine { chain f { type filter hook forward "
             "priority -5; policy drop; iifname nomad accept; oifname nomad "
             "accept; }; }'; ",
             kRename),
         "bridge 'nomad' was renamed to 'old'",
         kTcp,
         "bridge.intact"}}),
    kNameOf);

class BridgeName : public CausesWorld {};

TEST_F(BridgeName, IsNotWhyWhereNothingGoesByIt) {
  host().Shell(kRename);
  ASSERT_TRUE(Answers(Way::kTcp));
  EXPECT_EQ(At(Diagnose(Way::kTcp), "/host/0"), "bridge 'nomad' was renamed to 'old'");
  EXPECT_EQ(Diagnose(Way::kTcp).at("cause"), nullptr);
  host().Nft(
      "table ip mine { chain early { type filter hook prerouting priority raw; tcp dport "
      "8080 drop; }; }");
  EXPECT_THAT(Diagnose(Way::kTcp).at("cause").get<std::string>(),
              HasSubstr("drops what comes for the port"));
}

TEST_F(BridgeName, IsNotWhyWhereNoPortIsPublished) {
  Attach(Config(), As("silent", AddContainer("silent")));
  host().Shell(kRename);
  EXPECT_EQ(At(RunLine("inspect -json silent").json, "/attachments/0/diagnosis/cause"), nullptr);
}

// Its source is the bridge's address, by a rule that knows the bridge by its name.
TEST_F(BridgeName, IsWhyTheNodeGetsNoAnswerOn127001) {
  Node& other = AddContainer("other");
  Attach(Publish({Port(8082, 80, "tcp", "127.0.0.1")}), As("other", other));
  Serve(other, Protocol::kTcp, {"0.0.0.0"}, 80, "hello");
  const auto answers = [&] {
    return test::Ask(host(),
                     {.to = "127.0.0.1", .port = 8082, .patience = std::chrono::milliseconds(700)})
        .has_value();
  };
  const auto cause = [&](const std::string& of) {
    return At(RunLine(Cat("inspect -json ", of)).json, "/attachments/0/diagnosis/cause");
  };
  ASSERT_TRUE(answers());
  host().Shell(kRename);
  EXPECT_FALSE(answers());
  EXPECT_EQ(cause("8082"), "bridge 'nomad' was renamed to 'old'");
  EXPECT_TRUE(Answers(Way::kTcp));
  EXPECT_EQ(cause("8080"), nullptr);
  Paste("nomad-bridge reconcile");
  EXPECT_TRUE(Soon(answers)) << "the bridge was down meanwhile";
}

class TwoBridges : public CausesWorld {};

// As the first release left them.
TEST_F(TwoBridges, OfOneNetworkAreNamedAndTheFixHeals) {
  host().Shell(Cat(kRename, "rm /run/nomad-bridge/.generation"));
  Paste("nomad-bridge reconcile");
  ASSERT_EQ(AddressesOn(host(), "old"), std::vector<std::string>{"172.26.64.1/20"});
  EXPECT_FALSE(Answers(Way::kTcp, std::chrono::milliseconds(250)));
  const json cause = At(Diagnose(Way::kTcp), "/causes/0");
  EXPECT_EQ(cause.at("what"),
            "'old', which was bridge 'nomad' before, has its address 172.26.64.1/20, too: what is "
            "for containers leaves by one of both");
  EXPECT_EQ(Diagnose(Way::kTcp).at("cause"), cause.at("what"));
  const std::set<std::string> checks = DoctorsChecks();
  EXPECT_TRUE(checks.contains("bridge.subnet_overlap"));
  EXPECT_FALSE(checks.contains("ports.blocked")) << "is said already";
  Paste(cause.at("fix"));
  EXPECT_TRUE(Answers(Way::kTcp));
  EXPECT_FALSE(DoctorsChecks().contains("bridge.subnet_overlap"));
}

// The other one may be somebody's by now; and the route may lead by the right one, for a while.
TEST_F(TwoBridges, OfWhichOneHasPortsLosesTheAddressesAlone) {
  host().Shell(Cat("ip link add old address ",
                   LinkOn(host(), "nomad").at("address").get<std::string>(),
                   " type bridge; ip link add tap type veth peer name far; ip link set tap up "
                   "master old; ip link set old up; ip address add 172.26.64.1/20 dev old; ip "
                   "address add fd00:26::1/64 dev old nodad"));
  const json found = RunLine("doctor -json bridge.subnet_overlap").json;
  const std::string fix = At(found, "/checks/0/fix");
  EXPECT_EQ(fix,
            "ip address delete 172.26.64.1/20 dev old && ip address delete fd00:26::1/64 dev old");
  EXPECT_EQ(At(Diagnose(Way::kTcp), "/causes"), json::array());
  Paste(fix);
  EXPECT_TRUE(Answers(Way::kTcp) && Answers(Way::kTcp6));
  EXPECT_FALSE(DoctorsChecks().contains("bridge.subnet_overlap"));
}

}  // namespace
}  // namespace nomad_bridge::test
