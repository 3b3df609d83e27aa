// Zones of conntrack that others put packets into: where a request and its answer are looked for in
// two, the answer is not translated back.
#include "tests/plugin/causes_world.h"

namespace nomad_bridge::test {
namespace {

// At priority raw, in an nft table.
std::string Early(const std::string& rules) {
  return Cat("nft 'table inet mine { chain p { type filter hook prerouting priority raw; ",
             rules,
             "; }; }'");
}

// What the node itself sends is in the same zone.
constexpr const char* kOfOwn =
    "; nft 'table inet mine { chain o { type filter hook output priority raw; ct zone set 5; }; }'";

class ZoneThatEnds : public CausesWorld {};

TEST_P(ZoneThatEnds, IsNamedAndItsFixHeals) {
  BreakAndHeal(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Zones,
    ZoneThatEnds,
    ::testing::ValuesIn(std::vector<Cause>{
        {"Answers",
         Early("iifname nomad ct zone set 5"),
         "chain p of table inet mine (rule with handle 2) has conntrack look for what the port "
         "answers in zone 5, and for what comes for it in zone 0"},
        {"Requests",
         Early("iifname uplink tcp dport 8080 ct zone set 5"),
         "has conntrack look for what comes for the port in zone 5"},
        {"AnswersOfRequests",
         Early("iifname uplink ct reply zone set 4"),
         "has conntrack look for what comes for the port in zone 4"},
        {"TwoZones",
         Early("ct zone set iifname map { uplink : 3, nomad : 4 }"),
         "what the port answers in zone 4, and for what comes for it in zone 3"},
        {"Iptables",
         "iptables -t raw -A PREROUTING -i nomad -j CT --zone 7",
         "chain PREROUTING of table ip raw (rule with handle"},
        {"Ip6tables",
         "ip6tables -t raw -A PREROUTING -i nomad -p tcp -j CT --zone-reply 7",
         "what the port answers in zone 7",
         kTcp6}}),
    kNameOf);

class ZoneThatEndsNothing : public CausesWorld {};

TEST_P(ZoneThatEndsNothing, IsNotNamed) {
  ExpectNoCauseAfter(GetParam().damage);
}

INSTANTIATE_TEST_SUITE_P(
    Zones,
    ZoneThatEndsNothing,
    ::testing::ValuesIn(std::vector<Cause>{
        {"OneForAll", Cat(Early("ct zone set 5"), kOfOwn)},
        {"OfRequestsAlone", Early("iifname uplink ct original zone set 5")},
        {"TheSecond", Cat(Early("ct zone set 5; iifname nomad ct zone set 6"), kOfOwn)},
        {"OfOthers", Early("tcp dport 443 ct zone set 5")},
        {"BehindConntrack",
         "nft 'table inet mine { chain p { type filter hook prerouting priority 0; iifname nomad "
         "ct zone set 5; }; }'"},
        {"IptablesOneForAll",
         "iptables -t raw -A PREROUTING -j CT --zone 7; iptables -t raw -A OUTPUT -j CT --zone 7"},
        {"IptablesOfRequests", "iptables -t raw -A PREROUTING -i uplink -j CT --zone-orig 7"}}),
    kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
