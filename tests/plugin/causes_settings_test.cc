// Settings that end connections without a rule or a route: conntrack's timeouts, and an MTU below
// what IPv6 needs.
#include "tests/plugin/causes_world.h"

namespace nomad_bridge::test {
namespace {

class SettingThatEnds : public CausesWorld {};

TEST_P(SettingThatEnds, IsNamedAndItsFixHeals) {
  BreakAndHeal(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Settings,
    SettingThatEnds,
    ::testing::ValuesIn(std::vector<Cause>{
        {"ForgottenOnceAsked",
         "sysctl -w net/netfilter/nf_conntrack_tcp_timeout_syn_sent=0",
         "net/netfilter/nf_conntrack_tcp_timeout_syn_sent is 0: the node forgets connections"},
        {"ForgottenOnceEstablished",
         "sysctl -w net/netfilter/nf_conntrack_tcp_timeout_established=0",
         "net/netfilter/nf_conntrack_tcp_timeout_established is 0: the node forgets connections"},
        {"ContainerMtuTooSmallForIpv6",
         "ip link set eth0 mtu 1000",
         "interface 'eth0' has lost IPv6: its MTU is 1000, and IPv6 needs 1280",
         kTcp6},
    }),
    kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
