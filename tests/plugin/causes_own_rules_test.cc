// Rules of others for what the node itself asks, as Nomad's and Consul's checks do.
#include "tests/plugin/causes_world.h"

namespace nomad_bridge::test {
namespace {

class RuleForTheNode : public CausesWorld {
 protected:
  bool AnswersTheNode() {
    return test::Ask(host(),
                     {.to = kHostIp4, .port = 8080, .patience = std::chrono::milliseconds(700)})
        .has_value();
  }
};

TEST_F(RuleForTheNode, IsNamedAndItsFixHeals) {
  ASSERT_TRUE(AnswersTheNode());
  host().Nft(
      "table inet mine { chain o { type filter hook output priority 0; tcp dport 80 drop; "
      "}; chain r { type filter hook output priority raw; tcp dport 8080 drop; }; }");
  EXPECT_FALSE(AnswersTheNode());
  EXPECT_TRUE(Answers(Way::kTcp));
  const std::string says =
      "on the node, chain r of table inet mine (rule with handle 4) drops what this node itself "
      "asks the port";
  EXPECT_EQ(At(Diagnose(Way::kTcp), "/causes/0/what"), says);
  EXPECT_EQ(Diagnose(Way::kTcp).at("cause"), nullptr) << "others are answered";
  EXPECT_EQ(DiagnoseFrom(kHostIp4).at("cause"), says);
  PasteFixes(Way::kTcp);
  EXPECT_TRUE(AnswersTheNode());
}

TEST_F(RuleForTheNode, IsNamedBesideOneForOthers) {
  ASSERT_TRUE(AnswersTheNode());
  host().Nft(
      "table inet mine { chain f { type filter hook forward priority 0; tcp dport 80 drop; "
      "}; chain r { type filter hook output priority raw; tcp dport 8080 drop; }; }");
  EXPECT_FALSE(Answers(Way::kTcp) || AnswersTheNode());
  std::vector<std::string> named;
  const json diagnosis = Diagnose(Way::kTcp);
  for (const json& cause : diagnosis.at("causes")) {
    named.push_back(cause.at("what"));
  }
  EXPECT_THAT(named,
              AllOf(Contains(HasSubstr("chain f of table inet mine")),
                    Contains(HasSubstr("chain r of table inet mine"))));
}

TEST_F(RuleForTheNode, MayTakeItElsewhere) {
  ASSERT_TRUE(AnswersTheNode());
  host().Nft(
      "table ip mine { chain o { type nat hook output priority -110; tcp dport 8080 "
      "redirect to :9999; }; }");
  EXPECT_FALSE(AnswersTheNode());
  EXPECT_TRUE(Answers(Way::kTcp));
  const std::string says =
      "on the node, chain o of table ip mine (rule with handle 2) redirects what this node itself "
      "asks the port";
  EXPECT_EQ(At(Diagnose(Way::kTcp), "/causes/0/what"), says);
  EXPECT_EQ(Diagnose(Way::kTcp).at("cause"), nullptr) << "others are answered";
  PasteFixes(Way::kTcp);
  EXPECT_TRUE(AnswersTheNode());
}

TEST_F(RuleForTheNode, MayPutItIntoAZoneOfItsOwn) {
  for (const auto& [rule, chain] :
       {std::pair{"iptables -t raw -A OUTPUT -p tcp --dport 8080 -j CT --zone 7",
                  "chain OUTPUT of table ip raw (rule with handle "},
        std::pair{
            "nft 'table inet mine { chain o { type filter hook output priority raw; tcp dport "
            "8080 ct zone set 7; }; }'",
            "chain o of table inet mine (rule with handle 2)"}}) {
    ASSERT_TRUE(AnswersTheNode()) << rule;
    host().Shell(rule);
    EXPECT_FALSE(AnswersTheNode()) << rule;
    EXPECT_TRUE(Answers(Way::kTcp));
    const std::string what = At(Diagnose(Way::kTcp), "/causes/0/what");
    EXPECT_THAT(what,
                AllOf(HasSubstr(chain),
                      EndsWith("has conntrack look for what this node itself asks the port in zone "
                               "7, and for what it answers in zone 0: answers are not translated "
                               "back")));
    EXPECT_EQ(Diagnose(Way::kTcp).at("cause"), nullptr) << "others are answered";
    EXPECT_EQ(DiagnoseFrom(kHostIp4).at("cause"), what);
    PasteFixes(Way::kTcp);
    EXPECT_TRUE(AnswersTheNode()) << rule;
  }
}

// A command that took the answers out of that zone would cut the others off.
TEST_F(RuleForTheNode, OfAZoneForAllOthersHasAnAdvice) {
  host().Must(Words("iptables -t raw -A PREROUTING -j CT --zone 7"));
  EXPECT_FALSE(AnswersTheNode());
  EXPECT_TRUE(Answers(Way::kTcp));
  const json cause = At(Diagnose(Way::kTcp), "/causes/0");
  EXPECT_THAT(
      cause.at("what").get<std::string>(),
      HasSubstr("for what the port answers in zone 7, and for what this node itself asks it "
                "in zone 0"));
  EXPECT_EQ(cause.at("fix"), "");
  EXPECT_EQ(cause.at("advice"),
            "put what this node itself asks into zone 7, too: at the output hook, priority raw");
  host().Must(Words("iptables -t raw -A OUTPUT -j CT --zone 7"));
  EXPECT_TRUE(AnswersTheNode());
  EXPECT_EQ(Diagnose(Way::kTcp).at("causes"), json::array());
}

TEST_F(RuleForTheNode, OfItsRequestsZoneIsNoFault) {
  host().Must(Words("iptables -t raw -A OUTPUT -j CT --zone-orig 7"));
  EXPECT_TRUE(AnswersTheNode());
  EXPECT_EQ(Diagnose(Way::kTcp).at("causes"), json::array());
}

// What translates behind ours does not see it.
TEST_F(RuleForTheNode, BehindOursIsNoFault) {
  host().Nft(
      "table ip mine { chain o { type nat hook output priority -90; tcp dport { 80, 8080 } "
      "redirect to :9999; }; }");
  EXPECT_EQ(TcpText(host(), kHostIp4, 8080), "hello");
  EXPECT_EQ(Diagnose(Way::kTcp).at("causes"), json::array());
}

TEST_F(RuleForTheNode, OfTheOperatorsOwnIsNoFault) {
  host().Shell(
      "iptables -N ufw-before-output; iptables -N ufw-user-output; iptables -I OUTPUT -j "
      "ufw-before-output; iptables -A ufw-before-output -j ufw-user-output; iptables -A "
      "ufw-user-output -p tcp --dport 8080 -j REJECT; iptables -A ufw-user-output -p tcp "
      "--dport 80 -j REJECT");
  const json cause = At(DiagnoseFrom(kHostIp4), "/causes/0");
  EXPECT_THAT(cause.at("what").get<std::string>(), HasSubstr("chain ufw-user-output of table"));
  EXPECT_EQ(cause.at("fix"), "");
  EXPECT_THAT(cause.at("advice").get<std::string>(), HasSubstr("the operator's own rules"));
}

// Between two ports of its bridge.
class RuleForNeighbours : public CausesWorld {};

TEST_F(RuleForNeighbours, IsNamedAndItsFixHeals) {
  Node& other = AddContainer("other");
  const std::string neighbour = AddressOf(Attach(DualStack(), As("other", other)));
  const auto answers = [&] {
    return test::Ask(other,
                     {.to = address_, .port = 80, .patience = std::chrono::milliseconds(700)})
        .has_value();
  };
  const auto causes = [&] { return DiagnoseFrom(neighbour).at("causes"); };
  ASSERT_TRUE(answers());
  ASSERT_EQ(causes(), json::array());
  const std::vector<std::pair<std::string, std::string>> rules = {
      {Cat("oifname ", veth_, " tcp dport 80"), "comes from the LAN for its container"},
      {Cat("ip saddr ", address_), "the port answers"}};
  for (const auto& [rule, what] : rules) {
    host().Nft(Cat("table bridge mine { chain f { type filter hook forward priority 0; ",
                   rule,
                   " drop; }; }"));
    EXPECT_FALSE(answers());
    EXPECT_TRUE(Answers(Way::kTcp)) << "others' way is another";
    EXPECT_EQ(Diagnose(Way::kTcp).at("cause"), nullptr);
    const json cause = At(causes(), "/0");
    EXPECT_EQ(
        cause.at("what"),
        Cat("on the node, chain f of table bridge mine (rule with handle 2) drops what ", what));
    Paste(cause.at("fix"));
    EXPECT_TRUE(answers());
    host().Must(Words("nft delete table bridge mine"));
  }
}

}  // namespace
}  // namespace nomad_bridge::test
