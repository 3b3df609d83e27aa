// Rules of others that keep a link from finding whom it sends to, or from being found. What was
// found before is forgotten first, as it is in time.
#include "tests/plugin/causes_world.h"

namespace nomad_bridge::test {
namespace {

class LookupThatEnds : public CausesWorld {
 protected:
  // Of everyone, but for what is there for good.
  void Forget() {
    for (Node* const node : {&host(), &outside(), &container()}) {
      node->Must(Words("ip neigh flush all"));
    }
  }
  void Break(const Cause& cause) override {
    CausesWorld::Break(cause);
    Forget();
  }
  void Paste(const std::string& fix) override {
    CausesWorld::Paste(fix);
    Forget();
  }
};

TEST_P(LookupThatEnds, IsNamedAndItsFixHeals) {
  BreakAndHeal(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Rules,
    LookupThatEnds,
    ::testing::ValuesIn(std::vector<Cause>{
        {"InputPolicy",
         "nft 'table inet mine { chain in { type filter hook input priority 0; policy drop; ct "
         "state established,related accept; iif lo accept; tcp dport 22 accept; }; }'",
         "on the node, chain in of table inet mine (policy drop) drops neighbour solicitations "
         "that come by 'uplink'",
         kTcp6},
        {"InputPolicyButForTheUplink",
         "nft 'table ip6 mine { chain in { type filter hook input priority 0; policy drop; iifname "
         "uplink accept; icmpv6 type echo-request accept; }; }'",
         "on the node, chain in of table ip6 mine (policy drop) drops neighbour solicitations that "
         "come by 'nomad'",
         kTcp6},
        {"OutputRule",
         "nft 'table inet mine { chain o { type filter hook output priority 0; icmpv6 type "
         "nd-neighbor-advert drop; }; }'",
         "drops neighbour advertisements that leave by 'uplink'",
         kTcp6},
        {"Ip6tables",
         "ip6tables -A INPUT -p icmpv6 --icmpv6-type echo-request -j ACCEPT; ip6tables -P INPUT "
         "DROP",
         "on the node, chain INPUT of table ip6 filter (policy drop) drops neighbour solicitations "
         "that come by 'uplink'",
         kTcp6},
        {"Invalid6",
         "nft 'table ip6 mine { chain early { type filter hook prerouting priority mangle; ct "
         "state untracked drop; }; }'",
         "drops neighbour solicitations that come by 'uplink'",
         kTcp6},
        {"Arp",
         "nft 'table arp mine { chain in { type filter hook input priority 0; policy drop; }; }'",
         "on the node, chain in of table arp mine (policy drop) drops ARP requests that come by "
         "'uplink'"},
        {"ArpRepliesOfTheContainer",
         "nft 'table arp mine { chain in { type filter hook input priority 0; iifname nomad arp "
         "saddr ip ADDRESS drop; }; }'",
         "chain in of table arp mine (rule with handle 2) drops ARP replies that come by 'nomad'"},
        {"ArpOutput",
         "nft 'table arp mine { chain o { type filter hook output priority 0; oifname nomad arp "
         "operation request drop; }; }'",
         "chain o of table arp mine (rule with handle 2) drops ARP requests that leave by 'nomad'"},
        {"BridgeInput",
         "nft 'table bridge mine { chain i { type filter hook input priority 0; ether type arp "
         "drop; }; }'",
         "chain i of table bridge mine (rule with handle 2) drops ARP requests that come by "
         "'nomad'"},
        {"BridgePolicy",
         "nft 'table bridge mine { chain p { type filter hook prerouting priority 0; policy drop; "
         "meta l4proto { tcp, udp, icmp } accept; }; }'",
         "chain p of table bridge mine (policy drop) drops ARP requests that come by 'nomad'"},
        {"BridgeNeighbours6",
         "nft 'table bridge mine { chain p { type filter hook prerouting priority 0; icmpv6 type "
         "nd-neighbor-solicit drop; }; }'",
         "chain p of table bridge mine (rule with handle 2) drops neighbour solicitations that "
         "come by 'nomad'",
         kTcp6},
        {"Ingress",
         "nft 'table netdev mine { chain i { type filter hook ingress device uplink priority 0; "
         "meta protocol arp drop; }; }'",
         "chain i of table netdev mine (rule with handle 2) drops ARP requests that come by "
         "'uplink'"},
        {"IngressOfThePort",
         "nft 'table netdev mine { chain i { type filter hook ingress device VETH priority 0; arp "
         "operation reply drop; }; }'",
         "chain i of table netdev mine (rule with handle 2) drops ARP replies that come by "
         "'nomad'"},
        {"ContainerInput",
         "nft 'table inet mine { chain i { type filter hook input priority 0; policy drop; iif lo "
         "accept; tcp dport 80 accept; }; }'",
         "in the container, chain i of table inet mine (policy drop) drops neighbour solicitations "
         "that come by 'eth0'",
         kTcp6},
        {"ContainerArp",
         "nft 'table arp mine { chain i { type filter hook input priority 0; policy drop; }; }'",
         "in the container, chain i of table arp mine (policy drop) drops ARP requests that come "
         "by 'eth0'"},
    }),
    kNameOf);

INSTANTIATE_TEST_SUITE_P(
    Settings,
    LookupThatEnds,
    ::testing::ValuesIn(std::vector<Cause>{
        {"Uplink",
         "sysctl -w net.ipv4.conf.uplink.arp_ignore=8",
         "net/ipv4/conf/uplink/arp_ignore is 8: who asks for an address there gets no answer"},
        {"AllOfTheNode",
         "sysctl -w net.ipv4.conf.all.arp_ignore=8 net.ipv4.conf.nomad.arp_ignore=2",
         "net/ipv4/conf/all/arp_ignore is 8: who asks for an address there gets no answer"},
        {"ContainerLink",
         "sysctl -w net.ipv4.conf.eth0.arp_ignore=8",
         "net/ipv4/conf/eth0/arp_ignore is 8: who asks for an address there gets no answer",
         kTcp,
         "containers"},
        {"ContainerAll",
         "sysctl -w net.ipv4.conf.all.arp_ignore=8",
         "net/ipv4/conf/all/arp_ignore is 8: who asks for an address there gets no answer"},
    }),
    kNameOf);

class LookupOfTheGateway : public CausesWorld {};

// Which the container learns from the node's requests, too.
TEST_F(LookupOfTheGateway, IsNotAnswered) {
  BreakAndHeal(
      {{"Bridge"},
       "sysctl -w net.ipv4.conf.nomad.arp_ignore=8; ip -n container neigh flush all",
       "net/ipv4/conf/nomad/arp_ignore is 8: who asks for an address there gets no answer"});
}

class LookupThatNeedsNone : public CausesWorld {};

// A port answers on a network where everyone is put down for good.
TEST_F(LookupThatNeedsNone, IsNoFault) {
  const auto mac = [&](Node& node, const std::string& ifname) {
    return LinkOn(node, ifname).at("address").get<std::string>();
  };
  const auto know = [](Node& node, const std::string& ip, const std::string& at, const char* dev) {
    node.Must(Words(Cat("ip neigh replace ", ip, " lladdr ", at, " dev ", dev, " nud permanent")));
  };
  know(host(), kOutsideIp4, mac(outside(), "uplink"), "uplink");
  know(outside(), kHostIp4, mac(host(), "uplink"), "uplink");
  host().Nft(
      "table arp mine { chain i { type filter hook input priority 0; iifname uplink drop; "
      "}; chain o { type filter hook output priority 0; oifname uplink drop; }; }");
  EXPECT_TRUE(Answers(Way::kTcp));
  EXPECT_EQ(Diagnose(Way::kTcp).at("cause"), nullptr);
  // What was known goes with the flag.
  host().Shell("nft delete table arp mine; ip link set uplink arp off");
  know(host(), kOutsideIp4, mac(outside(), "uplink"), "uplink");
  know(host(), kOutsideIp6, mac(outside(), "uplink"), "uplink");
  EXPECT_TRUE(Answers(Way::kTcp));
  EXPECT_EQ(Diagnose(Way::kTcp).at("cause"), nullptr);
}

}  // namespace
}  // namespace nomad_bridge::test
