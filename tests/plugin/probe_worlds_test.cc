// What on the node keeps a published port from answering: each row breaks one thing, which a real
// client shows; inspect names it, and the station at which the packet ends, and the command that it
// prints, pasted into a shell, heals it.
#include "tests/plugin/probe_world.h"

namespace nomad_bridge::test {
namespace {

// The node's way to kFarIp4 is another one than its way here.
const std::string kOtherWay =
    "ip link add other type veth peer name back netns outside; ip -n outside link set back up; "
    "ip link set other up; ip route add 203.0.113.0/24 dev other; ";

// A VPN that has a route to the allocations' subnet in a table of its own.
std::string Vpn(const std::string& tool, const std::string& subnet, const std::string& rule) {
  return Cat("ip link add vpn type veth peer name far; ip link set far up; ip link set vpn up; ",
             Format("{} rule add {} lookup 52 priority 5270; ", tool, rule),
             Format("{} route add {} dev vpn table 52", tool, subnet));
}

class BrokenNode : public ProbeWorld {};

TEST_P(BrokenNode, IsNamedAndItsFixRepairsIt) {
  BreakAndHeal(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Rules,
    BrokenNode,
    ::testing::ValuesIn(std::vector<Broken>{
        {"BeforeTranslation",
         "nft 'table ip mine { chain early { type filter hook prerouting priority raw; tcp dport "
         "8080 drop; }; }'",
         "on the node, chain early of table ip mine (rule with handle 2: tcp dport 8080 drop) "
         "drops "
         "packets for the port",
         kTcp,
         "prerouting"},
        {"BehindTranslation",
         "nft 'table inet mine { chain p { type filter hook prerouting priority 0; ip daddr "
         "ADDRESS "
         "tcp dport 80 drop; }; }'",
         "chain p of table inet mine (rule with handle 2: ip daddr ADDRESS tcp dport 80 drop)",
         kTcp,
         "prerouting"},
        {"BehindTranslation6",
         "nft 'table inet mine { chain p { type filter hook prerouting priority 0; ip6 daddr "
         "fd00:26::2 drop; }; }'",
         "chain p of table inet mine (rule with handle 2: ip6 daddr fd00:26::2 drop)",
         kTcp6,
         "prerouting"},
        {"PolicyOfForward",
         "nft 'table inet mine { chain forward { type filter hook forward priority 10; policy "
         "drop; "
         "}; }'",
         "chain forward of table inet mine (policy drop) drops packets for the port",
         kTcp,
         "forward"},
        {"ChainThatIsJumpedTo",
         "nft 'table inet mine { chain far { tcp dport 80 drop; }; chain f { type filter hook "
         "forward priority -10; jump far; }; }'",
         "chain far of table inet mine (rule with handle",
         kTcp,
         "forward"},
        {"Iptables",
         "iptables -I FORWARD -p tcp --dport 80 -j DROP",
         "chain FORWARD of table ip filter",
         kTcp,
         "forward"},
        {"Ip6tables",
         "ip6tables -I FORWARD -p tcp --dport 80 -j DROP",
         "chain FORWARD of table ip6 filter",
         kTcp6,
         "forward"},
        {"MatchOfALength",
         "iptables -I FORWARD -p tcp --dport 80 -m length --length 40:64 -j DROP",
         "chain FORWARD of table ip filter",
         kTcp,
         "forward"},
        {"MatchOfAWindow",
         "nft 'table inet mine { chain f { type filter hook forward priority -10; tcp window > "
         "1000 "
         "drop; }; }'",
         "tcp window > 1000 drop",
         kTcp,
         "forward"},
        {"Reject",
         "iptables -I FORWARD -d ADDRESS -p tcp --dport 80 -j REJECT",
         "chain FORWARD of table ip filter",
         kTcp,
         "forward"},
        {"QueueWithoutAReader",
         "iptables -I FORWARD -p tcp --dport 80 -j NFQUEUE --queue-num 3",
         "hands to a program that does not answer packets for the port",
         kTcp,
         "forward"},
        {"MarkTakenAway",
         "iptables -P FORWARD DROP; nft 'table inet mine { chain f { type filter hook forward "
         "priority filter; meta mark set 0; }; }'",
         "chain FORWARD of table ip filter (policy drop)",
         kTcp,
         "forward"},
        {"OperatorsChain",
         "iptables -I NOMAD-ADMIN -p tcp --dport 80 -j DROP",
         "chain NOMAD-ADMIN of table ip filter",
         kTcp,
         "forward",
         "that chain has the operator's own rules"},
        {"BannedClients",
         "nft 'table inet f2b { set banned { type ipv4_addr; elements = { 203.0.113.5 }; }; chain "
         "c "
         "{ type filter hook prerouting priority -150; ip saddr @banned drop; }; }'",
         "ip saddr @banned drop",
         kFar,
         "prerouting",
         "the rule is about clients' addresses"},
        {"Untracked",
         "iptables -t raw -I PREROUTING -p tcp --dport 8080 -j CT --notrack",
         "changes how conntrack follows packets for the port",
         kTcp,
         "route"},
        {"Zone",
         "iptables -t raw -A PREROUTING -i nomad -j CT --zone 7",
         "changes how conntrack follows what the port answers",
         kTcp,
         "answer"},
        {"RedirectToTheNode",
         "iptables -t nat -I PREROUTING -p tcp --dport 8080 -j REDIRECT --to-ports 9999",
         "redirects packets for the port",
         kTcp,
         "route"},
        {"RedirectToAnother",
         "nft 'table ip mine { chain p { type nat hook prerouting priority -110; tcp dport 8080 "
         "dnat to 198.51.100.77:80; }; }'",
         "chain p of table ip mine (rule with handle 2: tcp dport 8080 dnat to 198.51.100.77:80) "
         "redirects packets for the port",
         kTcp,
         "nomad"},
        {"OutputOfTheBridge",
         "nft 'table bridge mine { chain o { type filter hook output priority 0; ip daddr ADDRESS "
         "drop; }; }'",
         "chain o of table bridge mine",
         kTcp,
         "nomad"},
        {"PreroutingOfTheBridge",
         "nft 'table bridge mine { chain p { type filter hook prerouting priority 0; iifname VETH "
         "tcp sport 80 drop; }; }'",
         "drops what the port answers",
         kTcp,
         "answer"},
        {"PostroutingOfTheAnswer",
         "nft 'table inet mine { chain p { type filter hook postrouting priority 200; tcp sport "
         "8080 drop; }; }'",
         "chain p of table inet mine (rule with handle 2: tcp sport 8080 drop) drops what the port "
         "answers",
         kTcp,
         "answer"},
        {"IngressOfTheUplink",
         "nft 'table netdev mine { chain i { type filter hook ingress device uplink priority 0; "
         "tcp "
         "dport 8080 drop; }; }'",
         "chain i of table netdev mine",
         kTcp,
         "uplink"},
        {"EgressOfTheUplink",
         "nft 'table netdev mine { chain e { type filter hook egress device uplink priority 0; tcp "
         "sport 8080 drop; }; }'",
         "chain e of table netdev mine",
         kTcp,
         "answer"},
        {"Arp",
         "nft 'table arp mine { chain in { type filter hook input priority 0; policy drop; }; }'; "
         "ip neigh flush all",
         // The container's requests, or the replies to the node's, whichever come first.
         "chain in of table arp mine (policy drop) drops ARP re",
         kTcp,
         "nomad"},
        {"ArpOnTheBridge",
         "nft 'table bridge mine { chain i { type filter hook input priority 0; ether type arp "
         "drop; }; }'; ip neigh flush all",
         "chain i of table bridge mine",
         kTcp,
         "nomad"},
        {"Solicitations",
         "nft 'table inet mine { chain o { type filter hook output priority 0; icmpv6 type "
         "nd-neighbor-solicit drop; }; }'; ip -6 neigh flush dev nomad",
         "drops neighbour solicitations",
         kTcp6,
         "nomad"},
        {"IptablesLegacy",
         "iptables-legacy -t mangle -I FORWARD -p tcp --dport 80 -j DROP",
         "dropped by rules that nf_tables does not show",
         kTcp,
         "forward",
         "iptables-legacy-save"},
    }),
    kNameOf);

INSTANTIATE_TEST_SUITE_P(
    Ways,
    BrokenNode,
    ::testing::ValuesIn(std::vector<Broken>{
        {"Blackhole",
         "ip route add blackhole ADDRESS",
         "no packet gets to ADDRESS: a route there is a blackhole",
         kTcp,
         "route",
         "ip route show table all"},
        {"Unreachable6",
         "ip -6 route add unreachable fd00:26::2/128",
         "no packet gets to fd00:26::2: a route there is unreachable",
         kTcp6,
         "route",
         "ip -6 route show table all"},
        {"NetworkOfAnotherLink",
         "ip link add other type veth peer name far; ip link set far up; ip link set other up; ip "
         "route add ADDRESS/32 dev other",
         "the route to ADDRESS leads out of 'other', not of 'nomad'",
         kTcp,
         "nomad",
         "another subnet"},
        {"RuleOfAVpn",
         Vpn("ip", "172.26.64.0/20", ""),
         "packets to 172.26.64.0/20 leave by 'vpn', not by 'nomad': of the node's routing rules, "
         "'from all lookup 52' comes first (priority 5270)",
         kTcp,
         "nomad"},
        {"RuleOfAVpn6",
         Vpn("ip -6", "fd00:26::/64", ""),
         "packets to fd00:26::/64 leave by 'vpn', not by 'nomad': of the node's routing rules, "
         "'from all lookup 52' comes first (priority 5270)",
         kTcp6,
         "nomad"},
        {"RuleOfAVpnForAnUplink",
         Vpn("ip", "172.26.64.0/20", "iif uplink"),
         "'from all iif uplink lookup 52' comes first",
         kTcp,
         "nomad"},
        {"RuleOfAVpnForAMark",
         Cat("iptables -t mangle -A PREROUTING -i uplink -j MARK --set-mark 0x8; ",
             Vpn("ip", "172.26.64.0/20", "fwmark 0x8/0xff")),
         "'from all fwmark 0x00000008/0x000000ff lookup 52' comes first",
         kTcp,
         "nomad"},
        {"RuleForRequests",
         "ip rule add iif uplink prohibit priority 100",
         "packets that arrive on 'uplink' for ADDRESS are lost: a route or rule there prohibits "
         "it",
         kTcp,
         "route",
         "ip rule show"},
        {"MarkOfAnswers",
         "iptables -t mangle -A PREROUTING -i nomad -j MARK --set-mark 5; ip rule add fwmark 5 "
         "lookup 99; ip route add blackhole default table 99",
         "answers do not get to clients beyond the node, such as 198.41.0.4: a route there is a "
         "blackhole",
         kTcp,
         "answer",
         "iif nomad mark 5"},
        {"AddressOfTheNode",
         "ip route add local ADDRESS dev lo",
         "packets for ADDRESS end at this node",
         kTcp,
         "route",
         "ip route show table all"},
        {"ReversePath",
         kOtherWay + "sysctl -w net.ipv4.conf.uplink.rp_filter=1",
         "packets that arrive on 'uplink' from 203.0.113.5 are dropped",
         kFar,
         "route"},
        {"NoWayBack",
         "ip route add blackhole 203.0.113.0/24",
         "answers do not get to 203.0.113.5: a route there is a blackhole",
         kFar,
         "answer",
         "ip rule show"},
        {"HopLimit",
         "iptables -t mangle -A PREROUTING -i uplink -j TTL --ttl-set 1",
         "the node does not forward packets for the port, though it has a route for it",
         kTcp,
         "route",
         "hop limit"},
        {"Ipsec",
         "ip xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 dir fwd priority 9 action block",
         "the node does not forward packets for the port",
         kTcp,
         "route",
         "ip xfrm policy"},
        {"SilentGateway",
         "ip route replace default via 198.51.100.250 dev uplink",
         "nobody on 'uplink' answers for the gateway 198.51.100.250",
         kFar,
         "answer",
         "ip neigh show 198.51.100.250 dev uplink"},
        {"PermanentNeighbour",
         "ip neigh replace ADDRESS lladdr 02:00:00:00:00:99 dev nomad nud permanent",
         "a permanent neighbour entry on 'nomad' has ADDRESS at 02:00:00:00:00:99",
         kTcp,
         "nomad"},
        {"ForwardingOfTheUplink",
         "sysctl -w net.ipv4.conf.uplink.forwarding=0",
         "net/ipv4/conf/uplink/forwarding is 0",
         kTcp,
         "route"},
        {"StateOfThePort",
         "bridge link set dev VETH state 0",
         "bridge port 'VETH' does not forward",
         kTcp,
         "nomad"},
        {"QueueOfThePort",
         "tc qdisc add dev VETH root blackhole",
         "'VETH' sends nothing: its queue is a blackhole",
         kTcp,
         "nomad"},
        {"FilterOfTheUplink",
         "tc qdisc add dev uplink clsact; tc filter add dev uplink ingress protocol ip bpf "
         "bytecode "
         "'1,6 0 0 2,' direct-action",
         "a filter of tc on 'uplink' may drop it",
         kTcp,
         "uplink",
         "tc -s filter show dev uplink ingress"},
        {"MacOfTheBridge",
         R"(mac=$(ip -n container -o link show eth0 | sed 's/.*ether \([^ ]*\).*/\1/'); )"
         "bridge fdb replace $mac dev nomad self permanent",
         "at 'nomad', not at 'VETH'",
         kTcp,
         "nomad",
         "bridge fdb show"},
        {"ElementOfOurs",
         "nft flush map inet nomad-bridge port4",
         "tcp . 8080 in port4 of VETH is missing",
         kTcp,
         "route"},
        {"EverythingFlushed",
         "nft flush ruleset",
         "table inet nomad-bridge is missing",
         kTcp,
         "route"},
        {"RulesInIptables",
         "iptables -P FORWARD DROP; iptables -F CNI-FORWARD",
         "CNI-FORWARD",
         kTcp,
         "forward"},
        {"ForwardingOff",
         "sysctl -w net.ipv4.ip_forward=0",
         "net/ipv4/ip_forward is 0",
         kTcp,
         "route"},
        {"PortOfNoBridge",
         "ip link set VETH nomaster",
         "VETH is no port of bridge 'nomad'",
         kTcp,
         "nomad"},
    }),
    kNameOf);

class BrokenUplink : public ProbeWorld {};

// With a link that is set down go its IPv6 addresses and the routes by a gateway.
TEST_F(BrokenUplink, IsNamedWithWhatItHasLost) {
  const json down = CauseAfter("ip link set uplink down");
  EXPECT_EQ(down.at("what"), "interface 'uplink', which leads to it, is down");
  EXPECT_EQ(FailedStation(Diagnose(kTcp)), "uplink");
  Paste(down.at("fix"));
  EXPECT_TRUE(Soon([&] { return Answers(kTcp); }));
  EXPECT_EQ(At(Diagnose(kTcp), "/causes/0/what"),
            "this node has no default route for IPv4: clients beyond its own networks get no "
            "answer; it had one when the port was published");
}

// Packets of a probe are caught before that queue; requests for the neighbour are lost there.
TEST_F(BrokenUplink, WhoseQueueLosesAllIsNamedByInspectAndDoctor) {
  host().Must(Words("tc qdisc add dev uplink root blackhole"));
  const std::string what = "'uplink' sends nothing: its queue is a blackhole";
  EXPECT_EQ(Diagnose(kTcp).at("cause"), what);
  host().Must(Words("ip neigh flush dev uplink"));
  EXPECT_EQ(Diagnose(kTcp).at("causes").size(), 1U);
  EXPECT_EQ(Diagnose(kTcp).at("cause"), what);
  EXPECT_THAT(RunLine("inspect 8080 -no-probe"), Exits(1, Out(HasSubstr(what))));
  EXPECT_THAT(RunLine("doctor ports.blocked"),
              Exits(1, Out(HasSubstr(Cat(what, "\n      fix: tc qdisc del dev uplink root")))));
}

class BrokenPort : public ProbeWorld {};

// As load balancers do: the kernel takes the packets, though no link has the address.
TEST_F(BrokenPort, IsNoneOnAnAddressThatIsLocalByARoute) {
  Node& other = AddContainer("other");
  host().Must(Words("ip route add local 192.0.2.0/28 dev lo"));
  outside().Must(Words(Cat("ip route add 192.0.2.0/28 via ", kHostIp4)));
  Attach(Publish({Port(8082, 82, "tcp", "192.0.2.5")}), As("other", other));
  Serve(other, Protocol::kTcp, {"0.0.0.0"}, 82, "hello");
  ASSERT_EQ(TcpText(outside(), "192.0.2.5", 8082), "hello");
  EXPECT_EQ(DiagnosisOf("8082").at("causes"), json::array());
  EXPECT_THAT(RunLine("doctor ports.blocked"), Exits(0));
}

TEST_F(BrokenPort, IsTheCauseOnlyIfItIsAskedAbout) {
  host().Must(Words("ip address delete 198.51.100.9/24 dev uplink"));
  EXPECT_EQ(Diagnose(kTcp).at("cause"), nullptr) << "is the other port's";
  EXPECT_THAT(Diagnose(kSecond).at("cause").get<std::string>(),
              HasSubstr("is no address of this node"));
}

}  // namespace
}  // namespace nomad_bridge::test
