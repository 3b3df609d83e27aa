// Rules of policy routing by what only some packets have, such as a port or a mark: those that end
// a connection to a published port, and those on nodes whose ports answer, which are no cause.
#include "tests/plugin/causes_world.h"

namespace nomad_bridge::test {
namespace {

class CauseByPort : public CausesWorld {};

TEST_P(CauseByPort, IsNamedAndItsFixHeals) {
  BreakAndHeal(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Rules,
    CauseByPort,
    ::testing::ValuesIn(std::vector<Cause>{
        {"TableForAnswers",
         "ip rule add priority 50 ipproto tcp sport 80 lookup 77; ip route add unreachable default "
         "table 77",
         "the route to default is unreachable"},
        {"TableForAnswersToNamed",
         "ip rule add priority 50 ipproto tcp sport 80 lookup 77; ip route add unreachable default "
         "table 77",
         "answers do not get to 203.0.113.5: the route to default is unreachable",
         kFar},
        {"Answers",
         "ip rule add priority 50 ipproto tcp sport 79-81 prohibit",
         "ip rule 50 says prohibit"},
        {"Answers6",
         "ip -6 rule add priority 50 ipproto tcp sport 80 prohibit",
         "ip rule 50 says prohibit",
         kTcp6},
        {"AnswersOfUdp",
         "ip rule add priority 50 ipproto udp sport 80 prohibit",
         "ip rule 50 says prohibit",
         kLarge},
        {"Requests",
         "ip rule add priority 50 iif uplink ipproto tcp dport 80 prohibit",
         "what comes by 'uplink' for ADDRESS does not get there: ip rule 50 says prohibit"},
        {"MarkedAnswers",
         "iptables -t mangle -A PREROUTING -i nomad -j MARK --set-mark 5; ip rule add fwmark 5 "
         "lookup 99; ip route add blackhole default table 99",
         "the route to default is blackhole"},
        {"MarkedAnswersToNamed",
         "nft 'table inet mine { chain p { type filter hook prerouting priority mangle; iifname "
         "nomad meta mark set meta mark | 0x500; }; }'; ip rule add fwmark 0x500/0xf00 prohibit "
         "priority 60",
         "ip rule 60 says prohibit",
         kFar},
        {"MarkedConnection",
         "iptables -t mangle -A PREROUTING -i uplink -m conntrack --ctstate NEW -j CONNMARK "
         "--set-mark 7; iptables -t mangle -A PREROUTING -i nomad -j CONNMARK --restore-mark; ip "
         "rule add fwmark 7 lookup 99; ip route add unreachable default table 99",
         "the route to default is unreachable"},
        {"ContainerAnswers",
         "ip rule add priority 50 ipproto tcp sport 80 prohibit",
         "ip rule 50 says prohibit"},
    }),
    kNameOf);

class CauseOfOtherPort : public CausesWorld {};

TEST_F(CauseOfOtherPort, IsNoneOfThisOne) {
  for (const char* const rule : {"ipproto tcp sport 81-90",
                                 "ipproto tcp dport 80 iif nomad",
                                 "ipproto sctp sport 80",
                                 "sport 8080",
                                 "iif lo ipproto tcp dport 80"}) {
    const std::string words = Cat(rule, " prohibit priority 50");
    SCOPED_TRACE(rule);
    ExpectNoCauseAfter(Cat("ip rule add ", words));
    host().Must(Words(Cat("ip rule del ", words)));
  }
}

class CauseOfOneClient : public CausesWorld {};

// Anyone else is answered.
TEST_F(CauseOfOneClient, IsNoneOfAnyone) {
  for (const char* const rule : {"from 203.0.113.0/24", "from 198.0.0.0/8"}) {
    const std::string words = Cat(rule, " iif uplink prohibit priority 100");
    SCOPED_TRACE(rule);
    host().Must(Words(Cat("ip rule add ", words)));
    ExpectNoCause();
    host().Must(Words(Cat("ip rule del ", words)));
  }
}

class CauseBehindMarks : public CausesWorld {};

// What comes in is marked, and let through by that.
TEST_F(CauseBehindMarks, IsNone) {
  host().Shell(
      "iptables -t mangle -A PREROUTING -i uplink -j MARK --set-mark 7; ip rule add "
      "fwmark 7 lookup main priority 90; ip link add away up type bridge; ip route add "
      "default dev away table 77");
  for (const char* const rule : {"prohibit", "lookup 77"}) {
    SCOPED_TRACE(rule);
    ExpectNoCauseAfter(Cat("ip rule add iif uplink priority 100 ", rule));
    host().Must(Words(Cat("ip rule del iif uplink priority 100 ", rule)));
  }
}

// The same, of what is answered.
TEST_F(CauseBehindMarks, OfAnswersIsNone) {
  ExpectNoCauseAfter(
      "iptables -t mangle -A PREROUTING -i uplink -m conntrack --ctstate NEW -j CONNMARK "
      "--set-mark 7; iptables -t mangle -A PREROUTING -i nomad -m connmark --mark 7 -j "
      "MARK --set-mark 7; ip rule add fwmark 7 lookup main priority 90; ip rule add iif "
      "nomad prohibit priority 100; ip rule add fwmark 8 prohibit priority 80");
}

}  // namespace
}  // namespace nomad_bridge::test
