// Why a published port does not answer: each row breaks one thing, which traffic shows; inspect
// names it, first of all, and the fixes that it prints, pasted into a shell, heal it. doctor sees
// what is the node's.
#include "tests/plugin/causes_world.h"

namespace nomad_bridge::test {
namespace {

// The node's way to kFarIp4 is another one than its way here.
const std::string kOtherWay =
    "ip link add other type veth peer name back netns outside; ip -n outside link set back up; "
    "ip link set other up; ip route add 203.0.113.0/24 dev other; ";

const std::string kMac =
    R"(mac=$(ip -n container -o link show eth0 | sed 's/.*ether \([^ ]*\).*/\1/'); )";

class CauseOf : public CausesWorld {};

TEST_P(CauseOf, IsNamedAndItsFixHeals) {
  BreakAndHeal(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Ours,
    CauseOf,
    ::testing::ValuesIn(std::vector<Cause>{
        {"Element", "nft flush map inet nomad-bridge port4", "8080", kTcp, "table.intact"},
        {"NoPort",
         "ip link set VETH nomaster",
         "VETH is no port of bridge 'nomad'",
         kTcp,
         "bridge.ports"},
        {"VethDown", "ip link set VETH down", "VETH is down", kTcp, "bridge.ports"},
        {"Forwarding",
         "sysctl -w net.ipv4.ip_forward=0",
         "net/ipv4/ip_forward is",
         kTcp,
         "sysctl.ip_forward"},

        {"Forwarding6",
         "sysctl -w net.ipv6.conf.all.forwarding=0",
         "net/ipv6/conf/all/forwarding is",
         kTcp6,
         "sysctl.ip_forward"},
        {"BridgeDown", "ip link set nomad down", "bridge 'nomad' is down", kTcp, "bridge.intact"},
        {"BridgeGone", "ip link delete nomad", "bridge 'nomad' is missing", kTcp, "bridge.intact"},
        {"GatewayAddress",
         "ip address delete 172.26.64.1/20 dev nomad",
         "172.26.64.1",
         kTcp,
         "bridge.intact"},
        {"GatewayAddress6",
         "ip address delete fd00:26::1/64 dev nomad",
         "fd00:26::1",
         kTcp6,
         "bridge.intact"},
        {"TableGone",
         "nft delete table inet nomad-bridge",
         "table inet nomad-bridge is missing",
         kTcp,
         "table.intact"},
        {"EverythingFlushed",
         "nft flush ruleset",
         "the forwarding rules in table ip filter are missing",
         kTcp,
         "table.intact"},
        {"OurChain",
         "nft flush chain inet nomad-bridge prerouting",
         "prerouting",
         kTcp,
         "table.intact"},
        {"StaticRules",
         "iptables -P FORWARD DROP; iptables -F CNI-FORWARD",
         "CNI-FORWARD",
         kTcp,
         "static_rules"},
        {"SourceCheck",
         "nft flush set bridge nomad-bridge source4",
         "source4",
         kTcp,
         "table.intact"},
    }),
    kNameOf);

INSTANTIATE_TEST_SUITE_P(
    Node,
    CauseOf,
    ::testing::ValuesIn(std::vector<Cause>{
        {"BlackholeRoute",
         "ip route add blackhole ADDRESS",
         "no packet gets to ADDRESS: the route to ADDRESS/32 is blackhole"},
        {"UnreachableRoute",
         "ip route add unreachable ADDRESS/32",
         "no packet gets to ADDRESS: the route to ADDRESS/32 is unreachable"},
        {"MoreSpecificRoute",
         "ip link add other type veth peer name far; ip link set far up; ip link set other up; ip "
         "route add ADDRESS/32 dev other",
         "the route to ADDRESS leads out of 'other', not of 'nomad'"},
        {"MacOfTheBridge",
         kMac + "bridge fdb replace $mac dev nomad self permanent",
         "for the node's own, at 'nomad'"},
        {"MacOfAPort",
         kMac + "ip link add vethother type veth peer name x netns outside; ip link set vethother "
                "up master nomad; bridge fdb replace $mac dev vethother master permanent",
         "for the node's own, at 'vethother'"},
        {"NetworkRoute",
         "ip route del 172.26.64.0/20 dev nomad",
         "the route to 172.26.64.0/20 by 'nomad' is missing"},
        {"NetworkRoute6",
         "ip -6 route del fd00:26::/64 dev nomad",
         "the route to fd00:26::/64 by 'nomad' is missing",
         kTcp6},
        {"RuleThatProhibits",
         "ip rule add to ADDRESS prohibit priority 100",
         "no packet gets to ADDRESS: ip rule 100 says prohibit"},
        {"RuleForRequests",
         "ip rule add iif uplink prohibit priority 100",
         "what comes by 'uplink' for ADDRESS does not get there: ip rule 100 says prohibit"},
        {"RuleForRequests6",
         "ip -6 rule add iif uplink prohibit priority 100",
         "what comes by 'uplink' for fd00:26::2 does not get there: ip rule 100 says prohibit",
         kTcp6},
        {"RuleForRequestsOfOneClient",
         "ip rule add from 203.0.113.5 to 172.26.64.0/20 prohibit priority 100",
         "what comes by 'uplink' for ADDRESS does not get there: ip rule 100 says prohibit",
         kFar},
        {"TableForRequests",
         "ip rule add iif uplink table 77 priority 100; ip route add blackhole default table 77; "
         "ip route add blackhole default metric 9999 table 78",
         "what comes by 'uplink' for ADDRESS does not get there: the route to default is "
         "blackhole"},
        {"RuleOfMain",
         "ip rule del priority 32766",
         "no packet gets to ADDRESS: the ip rule by which table main is looked up is missing"},
        {"LocalRoute",
         "ip route add local ADDRESS dev lo",
         "the local route to ADDRESS/32 has this node itself take what is for ADDRESS"},
        {"LocalRouteOfMany",
         "ip route add local 172.26.64.0/24 dev nomad",
         "the local route to 172.26.64.0/24 has this node itself take what is for ADDRESS"},
        {"RuleBesideOthersOfItsPriority",
         "ip rule add from 192.0.2.77 prohibit priority 100; ip rule add to ADDRESS prohibit "
         "priority 100; ip rule add to 192.0.2.77 iif uplink blackhole priority 100",
         "no packet gets to ADDRESS: ip rule 100 says prohibit"},
        {"RuleToAnotherTable",
         "ip link add other type veth peer name far; ip link set far up; ip link set other up; ip "
         "rule add to ADDRESS table 77 "
         "priority 100; ip route add default dev other table 77",
         "the route to ADDRESS leads out of 'other', not of 'nomad'"},
        {"RuleForAnswers",
         "ip rule add from ADDRESS blackhole priority 100",
         "ip rule 100 says blackhole"},
        {"PermanentNeighbour",
         "ip neigh replace ADDRESS lladdr 02:00:00:00:00:99 dev nomad nud permanent",
         "a permanent neighbour entry on 'nomad' has ADDRESS at 02:00:00:00:00:99"},
        {"UplinkForwarding",
         "sysctl -w net.ipv4.conf.uplink.forwarding=0",
         "net/ipv4/conf/uplink/forwarding is 0",
         kTcp,
         "sysctl.ip_forward"},
        {"BridgeForwarding",
         "sysctl -w net.ipv4.conf.nomad.forwarding=0",
         "net/ipv4/conf/nomad/forwarding is 0",
         kTcp,
         "sysctl.ip_forward"},
        {"UplinkWithoutArp",
         "ip link set uplink arp off",
         "'uplink' finds no neighbours, and is found by none: NOARP is set on it"},
        {"UplinkBlackhole",
         "tc qdisc add dev uplink root blackhole",
         "'uplink' sends nothing: its queue is a blackhole"},
        {"BridgeBlackhole",
         "tc qdisc add dev nomad root blackhole",
         "'nomad' sends nothing: its queue is a blackhole"},
        {"PortBlackhole",
         "tc qdisc add dev VETH root blackhole",
         "'VETH' sends nothing: its queue is a blackhole"},
        {"NoLocalRoute",
         "ip route del local 198.51.100.1 dev uplink table local",
         "table local has no route for 198.51.100.1: this node takes nothing that is for it"},
        {"BridgeWithoutArp",
         "ip link set nomad arp off",
         "'nomad' finds no neighbours, and is found by none: NOARP is set on it"},
        {"PortState", "bridge link set dev VETH state 0", "bridge port 'VETH' does not forward"},
        {"SameAddress",
         "ip address add ADDRESS/32 dev lo",
         "this node itself has ADDRESS, on 'lo'"},

        {"SecondMachine",
         "ip netns add thief; ip link add thief0 type veth peer name eth0 netns thief; ip link set "
         "thief0 master nomad up; ip -n thief link set eth0 address 02:00:00:00:00:99 up; ip -n "
         "thief address add ADDRESS/20 dev eth0; ip neigh replace ADDRESS lladdr 02:00:00:00:00:99 "
         "dev nomad nud stale",
         "another machine on 'nomad' has it, too"},
        {"ReversePath",
         kOtherWay + "sysctl -w net.ipv4.conf.uplink.rp_filter=1",
         "what comes by 'uplink' from 203.0.113.5 is dropped",
         kFar},
        {"ReversePathOfAll",
         kOtherWay + "sysctl -w net.ipv4.conf.all.rp_filter=1",
         "what comes by 'uplink' from 203.0.113.5 is dropped",
         kFar},
        {"NoWayBack",
         "ip route add blackhole 203.0.113.0/24",
         "answers do not get to 203.0.113.5: the route to 203.0.113.0/24 is blackhole",
         kFar},
        {"BlackholeRoute6",
         "ip -6 route add blackhole fd00:26::2/128",
         "no packet gets to fd00:26::2: the route to fd00:26::2/128 is blackhole",
         kTcp6},
        {"PermanentNeighbour6",
         "ip neigh replace fd00:26::2 lladdr 02:00:00:00:00:99 dev nomad nud permanent",
         "a permanent neighbour entry on 'nomad' has fd00:26::2 at 02:00:00:00:00:99",
         kTcp6},
        {"MtuOfThePort",
         "ip link set VETH mtu 1300",
         "the MTU of 'eth0' is 1500, that of its other end 'VETH' 1300: larger packets are lost",
         kLarge,
         ""},
        {"MtuOfThePortAlone",
         "ip link set nomad mtu 1400; ip link set nomad mtu 1500; ip link set VETH mtu 1300",
         "the MTU of 'VETH' is 1300, that of 'nomad' 1500: larger packets are lost",
         kLarge},
    }),
    kNameOf);

INSTANTIATE_TEST_SUITE_P(
    Container,
    CauseOf,
    ::testing::ValuesIn(std::vector<Cause>{
        {"ContainerRoute",
         "ip route del default",
         "no default route for IPv4: answers find no way back"},
        {"ContainerPrefix",
         "ip -4 address flush dev eth0; ip address add ADDRESS/32 dev eth0",
         "no default route for IPv4: answers find no way back"},
        {"ContainerPrefix6",
         "ip -6 address flush dev eth0 scope global; ip address add fd00:26::2/128 dev eth0 nodad; "
         "ip -6 route del default",
         "no default route for IPv6: answers find no way back",
         kTcp6},
        {"ContainerRuleOfMain",
         "ip rule del priority 32766",
         "the ip rule by which table main is looked up is missing"},
        {"ContainerAddress", "ip address flush dev eth0", "interface 'eth0' has lost ADDRESS"},
        {"ContainerBlackholeQueue",
         "tc qdisc add dev eth0 root blackhole",
         "'eth0' sends nothing: its queue is a blackhole"},
        {"ContainerVpn",
         "ip link add tun0 type veth peer name far; ip link set tun0 up; ip link set far up; ip "
         "address add 10.8.0.2/24 dev tun0; ip route add 0.0.0.0/1 via 10.8.0.1; ip route add "
         "128.0.0.0/1 via 10.8.0.1",
         "answers leave by 'tun0', not by 'eth0': those to clients beyond the node, such as "
         "198.41.0.4"},
        {"ContainerWithoutArp",
         "ip link set eth0 arp off",
         "'eth0' finds no neighbours, and is found by none: NOARP is set on it"},
        {"ContainerDown", "ip link set eth0 down", "interface 'eth0' is down"},
        {"ContainerMac",
         "ip link set eth0 down; ip link set eth0 address 02:00:00:00:00:77 up; ip route add "
         "default via 172.26.64.1",
         "02:00:00:00:00:77",
         kTcp,
         "bridge.mac"},
        {"ContainerGateway",
         "ip neigh replace 172.26.64.1 lladdr 02:00:00:00:00:99 dev eth0 nud permanent",
         "a permanent neighbour entry has the gateway 172.26.64.1 at 02:00:00:00:00:99"},
        {"ContainerServiceStopped",
         "kill -STOP $(ss -H -ltnp 'sport = :80' | sed 's/.*pid=\\([0-9]*\\).*/\\1/')",
         ", which listens on tcp/80, is stopped"},

        {"ContainerMtu",
         "ip link set eth0 mtu 4000",
         "the MTU of 'eth0' is 4000, that of its other end 'VETH' 1500: larger packets are lost",
         kLarge},
        {"ContainerBlackhole",
         "ip route add blackhole 203.0.113.0/24",
         "what it answers does not get to 203.0.113.5: the route to 203.0.113.0/24 is blackhole",
         kFar},
        {"ContainerRule",
         "ip rule add from ADDRESS prohibit priority 100",
         "ip rule 100 says prohibit"},
        {"ContainerWrongGateway",
         "ip route replace default via 172.26.64.99; ping -c1 -W1 203.0.113.9 || true",
         "its default route leads to 172.26.64.99, which is not there"},
        {"ContainerWithoutIpv6",
         "sysctl -w net.ipv6.conf.eth0.disable_ipv6=1",
         "interface 'eth0' has IPv6 switched off",
         kTcp6},
        {"ContainerRedirect",
         "nft 'table inet mine { chain p { type nat hook prerouting priority -100; tcp dport 80 "
         "redirect to :9; }; }'",
         "in the container, chain p of table inet mine (rule with handle 2) redirects what comes "
         "for the port"},
    }),
    kNameOf);

class CauseBetweenBothEnds : public CausesWorld {};

// The other one may be right.
TEST_F(CauseBetweenBothEnds, IsHealedAtTheEndThatWasChanged) {
  const auto ends = [&] {
    return std::vector<json>{LinkOn(host(), veth_).at("mtu"),
                             LinkOn(container(), "eth0").at("mtu")};
  };
  host().Must(Words(Cat("ip link set ", veth_, " mtu 1300")));
  ASSERT_FALSE(Answers(Way::kLarge, std::chrono::milliseconds(250)));
  PasteFixes(Way::kLarge);
  EXPECT_EQ(ends(), (std::vector<json>{1500, 1500}));
  EXPECT_TRUE(Answers(Way::kLarge));

  container().Must(Words("ip link set eth0 mtu 4000"));
  host().Must(Words(Cat("ip link set ", veth_, " mtu 1400")));
  PasteFixes(Way::kLarge);
  EXPECT_EQ(ends(), (std::vector<json>{1500, 1500}));
}

class CauseAtUplink : public CausesWorld {};

TEST_F(CauseAtUplink, OutlivesThatItIsUpAgain) {
  const json down = CauseAfter("ip link set uplink down");
  EXPECT_EQ(down.at("what"), "'uplink', by which it is reached, is down");
  EXPECT_TRUE(DoctorsChecks().contains("ports.blocked"));
  Paste(down.at("fix"));
  EXPECT_TRUE(Soon([&] { return Answers(Way::kTcp); }));
  EXPECT_EQ(At(Diagnose(Way::kTcp), "/causes/0/what"),
            "this node has no default route for IPv4: clients beyond its own networks get no "
            "answer; it had one when the port was published");
  host().Must(Words(Cat("ip route add default via ", kOutsideIp4)));
  EXPECT_THAT(At(Diagnose(Way::kTcp), "/causes/0/what").get<std::string>(),
              HasSubstr("no address for IPv6"));
  host().Must(Words(Cat("ip address add ", kHostIp6, "/64 dev uplink nodad")));
  host().Must(Words(Cat("ip -6 route add default via ", kOutsideIp6, " dev uplink")));
  EXPECT_EQ(Diagnose(Way::kTcp).at("cause"), nullptr);
}

class CauseOfOnePort : public CausesWorld {};

TEST_F(CauseOfOnePort, ComesFirstWhereThatWasAskedFor) {
  host().Must(Words("ip address delete 198.51.100.9/24 dev uplink"));
  EXPECT_EQ(Diagnose(Way::kTcp).at("cause"), nullptr) << "is the other port's";
  EXPECT_TRUE(Answers(Way::kTcp));

  host().Nft(
      "table ip mine { chain early { type filter hook prerouting priority raw; tcp dport "
      "8080 drop; }; }");
  const json first = Diagnose(Way::kTcp);
  EXPECT_THAT(first.at("cause").get<std::string>(), HasSubstr("drops what comes for the port"));
  EXPECT_EQ(At(first, "/causes/0/what"), first.at("cause"));
  const json second = Diagnose(Way::kSecond);
  EXPECT_THAT(second.at("cause").get<std::string>(), HasSubstr("is no address of this node"));
  EXPECT_EQ(At(second, "/causes/0/what"), second.at("cause"));
}

TEST_F(CauseOfOnePort, NamesClientsInPlainWords) {
  host().Must(Words("ip rule add from 172.26.64.0/20 iif nomad blackhole priority 100"));
  EXPECT_EQ(At(Diagnose(Way::kTcp), "/causes/0/what"),
            "answers do not get to clients beyond the node, such as 198.41.0.4: ip rule 100 says "
            "blackhole");
}

}  // namespace
}  // namespace nomad_bridge::test
