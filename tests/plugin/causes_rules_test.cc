// Rules of others that end what a published port gets or answers: each row adds one, which traffic
// shows; inspect names it, and the fix that it prints, pasted into a shell, heals it.
#include "tests/plugin/causes_world.h"

namespace nomad_bridge::test {
namespace {

class RuleThatEnds : public CausesWorld {};

TEST_P(RuleThatEnds, IsNamedAndItsFixHeals) {
  BreakAndHeal(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Rules,
    RuleThatEnds,
    ::testing::ValuesIn(std::vector<Cause>{
        {"PolicyAfterOurs",
         "nft 'table inet mine { chain forward { type filter hook forward priority 10; policy "
         "drop; }; }'",
         "on the node, chain forward of table inet mine (policy drop) drops what comes for the "
         "port",
         kTcp,
         "forward.foreign"},
        {"PolicyBeforeOurs",
         "nft 'table inet mine { chain forward { type filter hook forward priority -10; policy "
         "drop; }; }'",
         "on the node, chain forward of table inet mine (policy drop) drops what comes"},
        {"RawTable",
         "nft 'table ip mine { chain early { type filter hook prerouting priority raw; tcp dport "
         "8080 drop; }; }'",
         "on the node, chain early of table ip mine (rule with handle 2) drops what comes for the "
         "port"},
        {"InvalidBeforeConntrack",
         "nft 'table inet mine { chain early { type filter hook prerouting priority raw; ct state "
         "invalid drop; }; }'",
         "chain early of table inet mine (rule with handle 2) drops what comes"},
        {"Set",
         "nft 'table inet mine { set s { type inet_service; flags interval; elements = { "
         "8000-9000 }; }; chain p { type filter hook prerouting priority mangle; tcp dport @s "
         "drop; }; }'",
         "chain p of table inet mine (rule with handle 3) drops what comes"},
        {"VerdictMap",
         "nft 'table inet mine { chain no { reject; }; chain p { type filter hook forward priority "
         "filter; ip daddr . tcp dport vmap { ADDRESS . 80 : goto no }; }; }'",
         "chain no of table inet mine (rule with handle"},
        {"IptablesRaw",
         "iptables -t raw -I PREROUTING -p tcp -m multiport --dports 80,8080 -j DROP",
         "chain PREROUTING of table ip raw (rule with handle"},
        {"IptablesMangle",
         "iptables -t mangle -I PREROUTING -p tcp --dport 8080 -j DROP",
         "chain PREROUTING of table ip mangle (rule with handle"},
        {"IptablesForward",
         "iptables -I FORWARD -d ADDRESS -p tcp --dport 80 -j REJECT",
         "chain FORWARD of table ip filter (rule with handle"},
        {"IptablesState",
         "iptables -I FORWARD -m conntrack --ctstate NEW -j DROP",
         "chain FORWARD of table ip filter (rule with handle"},
        {"IptablesOldState",
         "iptables -I FORWARD -i uplink -m state --state NEW -j DROP",
         "chain FORWARD of table ip filter (rule with handle"},
        {"IptablesOldStateForNamed",
         "iptables -I FORWARD -m state ! --state ESTABLISHED,RELATED -j DROP",
         "chain FORWARD of table ip filter (rule with handle",
         kFar},
        {"BehindADropThatIsNotKnown",
         "iptables -I FORWARD -p tcp --dport 80 -j DROP; iptables -I FORWARD -p tcp -m hashlimit "
         "--hashlimit-above 1000/sec --hashlimit-name a -j DROP",
         "chain FORWARD of table ip filter (rule with handle"},
        {"PolicyBehindADropThatIsNotKnown",
         "nft 'table inet mine { chain no { drop; }; chain f { type filter hook forward priority "
         "5; policy drop; limit rate over 900/second jump no; }; }'",
         "chain f of table inet mine (policy drop) drops what comes for the port",
         kTcp,
         "forward.foreign"},
        {"QueueThatNothingReads",
         "iptables -I FORWARD -p tcp --dport 80 -j NFQUEUE --queue-balance 3:4",
         "chain FORWARD of table ip filter (rule with handle"},
        {"GroupOfLinks",
         "ip link set nomad group 7; nft 'table inet mine { chain f { type filter hook forward "
         "priority 0; oifgroup 7 drop; }; }'",
         "chain f of table inet mine (rule with handle 2) drops what comes for the port"},
        {"GroupOfLinksOfIptables",
         "ip link set uplink group 9; iptables -I FORWARD -m devgroup --dst-group 9/0xf -j DROP",
         "drops what the port answers"},
        {"IptablesAnswers",
         "iptables -I FORWARD -s ADDRESS -j DROP",
         "drops what the port answers"},
        {"IptablesPostrouting",
         "iptables -t mangle -I POSTROUTING -d ADDRESS -j DROP",
         "chain POSTROUTING of table ip mangle (rule with handle"},
        {"NoTrack",
         "iptables -t raw -I PREROUTING -p tcp --dport 8080 -j CT --notrack",
         "chain PREROUTING of table ip raw (rule with handle 2) does not track what comes for the "
         "port"},
        {"NoTrackByNft",
         "nft 'table ip mine { chain early { type filter hook prerouting priority raw; tcp dport "
         "8080 notrack; }; }'",
         "does not track what comes for the port"},
        {"Redirect",
         "nft 'table ip mine { chain p { type nat hook prerouting priority -110; tcp dport 8080 "
         "redirect to :9999; }; }'",
         "chain p of table ip mine (rule with handle 2) redirects what comes for the port"},
        {"Dnat",
         "nft 'table ip mine { chain p { type nat hook prerouting priority -110; tcp dport 8080 "
         "dnat to 198.51.100.77:80; }; }'",
         "redirects what comes for the port"},
        {"RedirectOfOurPriority",
         "nft 'table inet mine { chain p { type nat hook prerouting priority dstnat; tcp dport "
         "8080 "
         "redirect to :9999; }; }'",
         "chain p of table inet mine (rule with handle 2) redirects what comes for the port"},
        {"MarkTakenAway",
         "iptables -P FORWARD DROP; nft 'table inet mine { chain f { type filter hook forward "
         "priority filter; meta mark set 0; }; }'",
         "chain FORWARD of table ip filter (policy drop) drops what comes for the port"},
        {"IptablesRedirect",
         "iptables -t nat -A PREROUTING -p tcp --dport 8080 -j REDIRECT --to-ports 9999",
         "chain PREROUTING of table ip nat (rule with handle"},
        {"DockersDnat",
         "iptables -t nat -N DOCKER; iptables -t nat -A PREROUTING -m addrtype --dst-type LOCAL -j "
         "DOCKER; iptables -t nat -A DOCKER ! -i docker0 -p tcp -m tcp --dport 8080 -j DNAT "
         "--to-destination 198.51.100.77:80",
         "chain DOCKER of table ip nat (rule with handle"},
        {"Bridge",
         "nft 'table bridge mine { chain o { type filter hook output priority 0; ip daddr ADDRESS "
         "drop; }; }'",
         "chain o of table bridge mine (rule with handle 2) drops what comes for the port"},
        {"BridgeAnswers",
         "nft 'table bridge mine { chain p { type filter hook prerouting priority 0; iifname VETH "
         "tcp sport 80 drop; }; }'",
         "chain p of table bridge mine (rule with handle 2) drops what the port answers"},
        {"Netdev",
         "nft 'table netdev mine { chain i { type filter hook ingress device uplink priority 0; "
         "tcp dport 8080 drop; }; }'",
         "chain i of table netdev mine (rule with handle 2) drops what comes for the port"},
        {"ContainerInput",
         "nft 'table inet mine { chain i { type filter hook input priority 0; policy drop; iif lo "
         "accept; }; }'",
         "in the container, chain i of table inet mine (policy drop) drops what comes for the "
         "port"},
        {"ContainerIptables",
         "iptables -A OUTPUT -p tcp --sport 80 -j DROP",
         "in the container, chain OUTPUT of table ip filter (rule with handle"},

        {"InetIngress",
         "nft 'table inet mine { chain i { type filter hook ingress device uplink priority 0; tcp "
         "dport 8080 drop; }; }'",
         "on the node, chain i of table inet mine (rule with handle 2) drops what comes for the "
         "port"},
        {"NetdevOfTheBridge",
         "nft 'table netdev mine { chain i { type filter hook ingress device nomad priority 0; ip "
         "saddr ADDRESS drop; }; }'",
         "chain i of table netdev mine (rule with handle 2) drops what the port answers"},
        {"NetdevOfThePort",
         "nft 'table netdev mine { chain i { type filter hook ingress device VETH priority 0; ip "
         "saddr ADDRESS drop; }; }'",
         "chain i of table netdev mine (rule with handle 2) drops what the port answers"},
        {"Egress",
         "nft 'table netdev mine { chain e { type filter hook egress device uplink priority 0; tcp "
         "sport 8080 drop; }; }'",
         "chain e of table netdev mine (rule with handle 2) drops what the port answers"},
        {"EgressOfTheBridge",
         "nft 'table netdev mine { chain e { type filter hook egress device nomad priority 0; ip "
         "daddr ADDRESS drop; }; }'",
         "chain e of table netdev mine (rule with handle 2) drops what comes for the port"},
        {"BehindOurDnat",
         "nft 'table inet mine { chain p { type filter hook prerouting priority 0; ip daddr "
         "ADDRESS tcp dport 80 drop; }; }'",
         "chain p of table inet mine (rule with handle 2) drops what comes for the port"},
        {"BehindSnat",
         "nft 'table inet mine { chain p { type filter hook postrouting priority 200; tcp sport "
         "8080 drop; }; }'",
         "chain p of table inet mine (rule with handle 2) drops what the port answers"},
        {"BeforeOurJump",
         "iptables -I FORWARD -j DROP",
         "chain FORWARD of table ip filter (rule with handle"},
        {"Ip6tables",
         "ip6tables -I FORWARD -p tcp --dport 80 -j DROP",
         "chain FORWARD of table ip6 filter (rule with handle",
         kTcp6},
        {"Nft6",
         "nft 'table ip6 mine { chain early { type filter hook prerouting priority raw; tcp dport "
         "8080 drop; }; }'",
         "chain early of table ip6 mine (rule with handle 2) drops what comes for the port",
         kTcp6},
        {"Udp",
         "nft 'table inet mine { chain early { type filter hook prerouting priority mangle; udp "
         "dport 8080 drop; }; }'",
         "chain early of table inet mine (rule with handle 2) drops what comes for the port",
         kLarge},
        {"OneClient",
         "nft 'table inet mine { chain early { type filter hook prerouting priority mangle; ip "
         "saddr 203.0.113.0/24 drop; }; }'",
         "chain early of table inet mine (rule with handle 2) drops what comes for the port",
         kFar},
        {"ContainerEgress",
         "nft 'table netdev mine { chain e { type filter hook egress device eth0 priority 0; tcp "
         "sport 80 drop; }; }'",
         "in the container, chain e of table netdev mine (rule with handle 2) drops what the port "
         "answers"},
    }),
    kNameOf);

// A node at several addresses of two uplinks: what drops at one of them, or at all, is named, and
// its fix opens the port at all.
class RuleAtSomeAddress : public CausesWorld {
 protected:
  static constexpr const char* kThirdIp4 = "192.0.2.1";

  void SetUp() override {
    CausesWorld::SetUp();
    host().Shell(
        "ip link add second type veth peer name back netns outside; ip link set second "
        "up; ip address add 192.0.2.1/24 dev second; ip -n outside link set back up; ip "
        "-n outside address add 192.0.2.2/24 dev back");
  }
  [[nodiscard]] bool AnswersAt(const std::string& address, std::chrono::milliseconds patience) {
    return test::Ask(outside(), {.to = address, .port = 8080, .patience = patience}).has_value();
  }
};

TEST_P(RuleAtSomeAddress, IsNamedAndItsFixOpensAll) {
  const std::set<std::string> addresses = {kHostIp4, kSecondIp4, kThirdIp4};
  for (const std::string& each : addresses) {
    ASSERT_TRUE(AnswersAt(each, std::chrono::milliseconds(1500))) << each;
  }
  host().Shell(GetParam().damage);
  EXPECT_FALSE(AnswersAt(kSecondIp4, std::chrono::milliseconds(250)));
  EXPECT_THAT(At(Diagnose(Way::kTcp), "/causes/0/what").get<std::string>(),
              HasSubstr(GetParam().says));
  EXPECT_TRUE(DoctorsChecks().contains("ports.blocked"));
  PasteFixes(Way::kTcp);
  for (const std::string& each : addresses) {
    EXPECT_TRUE(AnswersAt(each, std::chrono::milliseconds(1500))) << each;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rules,
    RuleAtSomeAddress,
    ::testing::ValuesIn(std::vector<Cause>{
        {"Iptables",
         "iptables -t raw -I PREROUTING -p tcp --dport 8080 -j DROP",
         "chain PREROUTING of table ip raw (rule with handle 2) drops what comes for the port"},
        {"Nft",
         "nft 'table inet mine { chain p { type filter hook prerouting priority raw; tcp dport "
         "8080 drop; }; }'",
         "chain p of table inet mine (rule with handle 2) drops what comes for the port"},
        {"Ingress",
         "nft 'table netdev mine { chain i { type filter hook ingress device uplink priority 0; "
         "tcp dport 8080 drop; }; }'",
         "chain i of table netdev mine (rule with handle 2) drops what comes for the port"},
        {"Egress",
         "nft 'table netdev mine { chain e { type filter hook egress device uplink priority 0; tcp "
         "sport 8080 drop; }; }'",
         "chain e of table netdev mine (rule with handle 2) drops what the port answers"},
        {"OneAddress",
         "nft 'table inet mine { chain p { type filter hook prerouting priority raw; ip daddr "
         "198.51.100.9 drop; }; }'",
         "chain p of table inet mine (rule with handle 2) drops what comes for the port at "
         "198.51.100.9"},
        {"AnswersOfOneAddress",
         "nft 'table netdev mine { chain e { type filter hook egress device uplink priority 0; ip "
         "saddr 198.51.100.9 drop; }; }'",
         "chain e of table netdev mine (rule with handle 2) drops what the port answers at "
         "198.51.100.9"},
    }),
    kNameOf);

// Chains that are there for the operator's own rules: what is in them is meant, and no fault of the
// node. Each with the rule of its chain that drops.
class OperatorsRule : public CausesWorld {};

TEST_P(OperatorsRule, IsNamedButNoFault) {
  const json cause = CauseAfter(GetParam().damage);
  EXPECT_THAT(cause.at("what").get<std::string>(),
              MatchesRegex(Cat("on the node, chain ",
                               GetParam().says,
                               " of table ip filter .rule with handle [0-9]+. drops what comes for "
                               "the port")));
  EXPECT_EQ(cause.at("fix"), "");
  const std::string advice = cause.at("advice");
  EXPECT_THAT(advice,
              StartsWith(Cat("that chain has the operator's own rules; if this one is not meant: "
                             "iptables -t filter -I ",
                             GetParam().says)));
  EXPECT_THAT(DoctorsChecks(), Not(::testing::Contains("ports.blocked")));
  Paste(advice.substr(advice.find("iptables")));
  EXPECT_TRUE(Answers(Way::kTcp));
  EXPECT_EQ(Diagnose(Way::kTcp).at("cause"), nullptr);
}

INSTANTIATE_TEST_SUITE_P(
    Rules,
    OperatorsRule,
    ::testing::ValuesIn(std::vector<Cause>{
        {"NomadAdmin", "iptables -I NOMAD-ADMIN -p tcp --dport 80 -j DROP", "NOMAD-ADMIN"},
        {"DockerUser",
         "iptables -N DOCKER-USER; iptables -I FORWARD -j DOCKER-USER; iptables -A DOCKER-USER -i "
         "uplink -p tcp -j DROP",
         "DOCKER-USER"},
        {"UfwUser",
         "iptables -N ufw-before-forward; iptables -N ufw-user-forward; iptables -I FORWARD -j "
         "ufw-before-forward; iptables -A ufw-before-forward -j ufw-user-forward; iptables -A "
         "ufw-user-forward -p tcp -d ADDRESS --dport 80 -j DROP",
         "ufw-user-forward"},
    }),
    kNameOf);

// Of two chains with one priority the kernel asks the younger one first: here that is another's,
// which takes from the packet a mark that it gets from ours only then.
class RuleBeforeOurs : public CausesWorld {};

TEST_F(RuleBeforeOurs, OfTheSamePriorityIsNotAccused) {
  host().Shell(
      "iptables -P FORWARD DROP; nft 'table inet mine { chain f { type filter hook forward "
      "priority -1; meta mark set 0; }; }'");
  EXPECT_TRUE(Answers(Way::kTcp));
  EXPECT_EQ(Diagnose(Way::kTcp).at("cause"), nullptr);
}

// Here that is ours.
class RuleBehindOurs : public CausesWorld {};

TEST_F(RuleBehindOurs, OfTheSamePriorityIsNotAccused) {
  host().Shell(
      "nft delete table inet nomad-bridge; nft 'table inet mine { chain p { type nat hook "
      "prerouting priority dstnat; tcp dport 8080 redirect to :9999; }; }'");
  EXPECT_EQ(RunLine("reconcile").exit_code, 0);
  EXPECT_TRUE(Answers(Way::kTcp));
  EXPECT_EQ(Diagnose(Way::kTcp).at("cause"), nullptr);
}

}  // namespace
}  // namespace nomad_bridge::test
