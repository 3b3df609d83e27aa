// nomad-bridge test, on healthy nodes and on broken ones.
#include "tests/plugin/trial_world.h"

namespace nomad_bridge::test {
namespace {

class Trial : public TrialWorld {};

TEST_F(Trial, TriesEveryWayInAndOut) {
  const Outcome outcome = RunLine("test -json");
  EXPECT_EQ(outcome.exit_code, 0) << outcome;
  std::set<std::string> both;
  for (const char* const id : {"gateway",
                               "node",
                               "node.service",
                               "neighbour",
                               "neighbour.back",
                               "port.outside",
                               "port.node",
                               "port.neighbour",
                               "port.itself",
                               "out",
                               "source",
                               "unpublished"}) {
    both.insert(Cat(id, "/4"));
    both.insert(Cat(id, "/6"));
  }
  both.merge(std::set<std::string>{"port.localhost/4", "resolver/null"});
  EXPECT_EQ(With("ok", outcome.json), both) << outcome;
  EXPECT_THAT(Output("test"),
              AllOf(StartsWith("network 'nomad'\nok gateway 172.26.64.1\n"),
                    HasSubstr("\nok published port, from outside, IPv6\n"),
                    EndsWith("\n28 ok, 0 failed, 0 left out\n")));
  EXPECT_EQ(Output("test nomad"), Output("test /opt/cni/config/network.conflist"));
}

TEST_F(Trial, PrintsADocumentOfItsSchema) {
  host().Must(Words("ip -6 route delete default"));
  ExpectValid(RunLine("test -json").out, "test.json");
}

TEST_F(Trial, NamesTheNetworksOfTheNode) {
  EXPECT_THAT(RunLine("test other"), Exits(2, Err(HasSubstr("no network 'other', but: nomad"))));
  fs::copy_file("/opt/cni/config/network.conflist", "/opt/cni/config/second.conflist");
  EXPECT_THAT(RunLine("test"), Exits(2, Err(HasSubstr("name a network: nomad, nomad"))));
  fs::remove_all("/opt/cni/config");
  EXPECT_THAT(RunLine("test"), Exits(2, Err(HasSubstr("no network is configured"))));
}

TEST_F(Trial, SaysWhichPluginFails) {
  json list = {DualStack(), {{"type", "nowhere"}}};
  Configure(list);
  EXPECT_THAT(RunLine("test"),
              Exits(1,
                    Out(AllOf(HasSubstr("X  two containers: plugin 'nowhere' is not in "),
                              HasSubstr("0 ok, 1 failed")))));
  Configure({DualStack({{"mtu", -7}})});
  EXPECT_THAT(RunLine("test"), Exits(1, Out(HasSubstr("plugin 'nomad-bridge' fails at ADD: "))));
  EXPECT_THAT(Entries("/run/nomad-bridge"), Not(Contains("nomad")));
}

// ---- -to

TEST_F(Trial, ConnectsToATarget) {
  Serve(outside(), Protocol::kTcp, {kOutsideIp4, kOutsideIp6}, 443, "world");
  EXPECT_THAT(Output(Cat("test -to ", kOutsideIp4, ":443")),
              HasSubstr("ok the target 198.51.100.2:443\n"));
  EXPECT_THAT(Output(Cat("test -to [", kOutsideIp6, "]:443")), HasSubstr("ok the target ["));
  EXPECT_THAT(RunLine(Cat("test -to ", kOutsideIp4, ":444")),
              Exits(1,
                    Out(HasSubstr("the target 198.51.100.2:444: the packet leaves by 'uplink', and "
                                  "no answer comes"))));
  host().Nft(
      "table inet mine { chain f { type filter hook forward priority 5; tcp dport 443 drop; }; }");
  EXPECT_THAT(RunLine(Cat("test -to ", kOutsideIp4, ":443")),
              Exits(1, Out(HasSubstr("chain f of table inet mine"))));
  EXPECT_THAT(RunLine("test -to nothing"), Exits(2, Err(HasSubstr("is no target"))));
}

// ---- what must not pass

TEST_F(Trial, FindsASourceCheckThatLetsPass) {
  Attach(DualStack());
  host().Must(Words("nft flush chain bridge nomad-bridge source"));
  EXPECT_EQ(Failures(), (std::set<std::string>{"source"}));
  EXPECT_THAT(RunLine("test"),
              Exits(1, Out(::testing::ContainsRegex("172.26.64.[0-9]+ may send as 172.26.64"))));
}

TEST_F(Trial, FindsAnUnpublishedPortThatIsOpen) {
  Attach(DualStack());
  host().Must(Words("nft flush chain inet nomad-bridge forward"));
  host().Must(Words("nft insert rule inet nomad-bridge forward accept"));
  EXPECT_TRUE(Failures().contains("unpublished"));
}

class TrialUnderPolicies : public TrialWorld {
 protected:
  void SetUp() override {
    TrialWorld::SetUp();
    Start("prod", "web");
  }
};

TEST_F(TrialUnderPolicies, TriesAnotherNamespace) {
  Apply({kNamespaces});
  const Outcome outcome = RunLine("test");
  EXPECT_THAT(outcome,
              Exits(0,
                    Out(AllOf(HasSubstr("ok another namespace of Nomad's, kept out by policy "
                                        "namespaces\n"),
                              HasSubstr("\nok neighbour\n"),
                              HasSubstr("-  published port, from outside: policy refuses "),
                              HasSubstr(" 0 failed")))));
  json open = kNamespaces;
  open["allow"] = {{{"from", {"any"}}}};
  Apply({open});
  EXPECT_THAT(RunLine("test"), Exits(0, Out(HasSubstr("ok another namespace of Nomad's\n"))));
}

TEST_F(TrialUnderPolicies, LeavesOutWhatTheyClose) {
  Apply({{{"name", "closed"}, {"from", {{"namespace", "*"}}}, {"allow", json::array()}},
         {{"name", "shut"}, {"to", {{"namespace", "*"}}}, {"allow", json::array()}}});
  ExpectNoFailure();
  EXPECT_THAT(Output("test"),
              AllOf(HasSubstr("ok neighbour, kept out by policy closed\n"),
                    HasSubstr("-  the way out, by 'uplink': "),
                    HasSubstr("-  name server 203.0.113.53: ")));
}

TEST_F(TrialUnderPolicies, FindsAPolicyThatDoesNotHold) {
  Apply({kNamespaces});
  for (const char* const family : {"inet", "bridge"}) {
    static_cast<void>(
        host().Run(Words(Format("nft insert rule {} nomad-bridge judge accept", family))));
  }
  EXPECT_TRUE(Failures().contains("namespace"));
}

TEST_F(TrialUnderPolicies, CountsNothing) {
  Apply({kNamespaces});
  const auto counters = [&] { return host().Must(Words("nft list counters")); };
  ASSERT_THAT(RunLine("test"), Exits(0));
  const std::string before = counters();
  ASSERT_THAT(RunLine("test"), Exits(0));
  EXPECT_EQ(counters(), before);
  EXPECT_THAT(before, Not(::testing::ContainsRegex("packets [1-9]")));
  EXPECT_EQ(json::parse(Output("policy status -flows -json")).at("flows").size(), 0U);
}

// ---- healthy nodes

struct Healthy : Named {
  json changes = {};        // of the network's config
  std::string before = {};  // run by sh on the host
};

class HealthyTrial : public TrialWorld, public ::testing::WithParamInterface<Healthy> {};

TEST_P(HealthyTrial, FindsNothing) {
  host().Shell(GetParam().before.empty() ? "true" : GetParam().before);
  Configure({DualStack(GetParam().changes)});
  ExpectNoFailure();
}

constexpr const char* kOnlyIpv4 = R"([[{"subnet": "172.26.64.0/20"}]])";
constexpr const char* kOnlyIpv6 = R"([[{"subnet": "fd00:26::/64"}]])";

INSTANTIATE_TEST_SUITE_P(
    Nodes,
    HealthyTrial,
    ::testing::ValuesIn(std::vector<Healthy>{
        {"Promiscuous", {{"hairpinMode", false}, {"promiscMode", true}}},
        {"WithoutHairpin", {{"hairpinMode", false}}},
        {"IsolatedPorts", {{"portIsolation", true}}},
        {"IngressIsolated", {{"ingressPolicy", "isolated"}}},
        {"IngressSameBridge", {{"ingressPolicy", "same-bridge"}}},
        {"InboundAny", {{"inbound", "any"}, {"sourceCheck", false}}},
        {"WithoutSnat", {{"snat", false}}},
        {"MasqAll", {{"masqAll", true}, {"randomPorts", true}}},
        {"Ipv4", {{"ipam", {{"ranges", json::parse(kOnlyIpv4)}}}}},
        {"Ipv6", {{"ipam", {{"ranges", json::parse(kOnlyIpv6)}}}}},
        {"ForwardDrop", {}, "iptables -P FORWARD DROP; ip6tables -P FORWARD DROP"},
        {"BridgeNetfilter", {}, "sysctl -qw net.bridge.bridge-nf-call-iptables=1"},
        {"IsolatedWithBridgeNetfilter",
         {{"portIsolation", true}, {"ingressPolicy", "isolated"}},
         "sysctl -qw net.bridge.bridge-nf-call-iptables=1"},
        {"InputDrop",
         {},
         "nft 'table inet host { chain in { type filter hook input priority 0; policy drop; ct "
         "state established,related accept; iif lo accept; icmpv6 type { nd-neighbor-solicit, "
         "nd-neighbor-advert } accept; tcp dport 22 accept; }; }'"},
        {"NodeWithoutIpv6", {}, "ip -6 address flush dev uplink; ip -6 route flush default"},
        {"WithoutDefaultRoute",
         {{"isDefaultGateway", false}, {"ipam", {{"routes", json::array()}}}}},
    }),
    kNameOf);

TEST_F(Trial, FindsNothingUnderTheReferencesNames) {
  const json all = DualStack();
  Configure(
      {{{"type", "bridge"},
        {"bridge", "nomad"},
        {"isGateway", true},
        {"ipMasq", true},
        {"hairpinMode", true},
        {"ipam", {{"type", "host-local"}, {"ranges", all.at("ipam").at("ranges")}}}},
       {{"type", "firewall"}, {"backend", "iptables"}, {"iptablesAdminChainName", "NOMAD-ADMIN"}},
       {{"type", "portmap"}, {"snat", true}}});
  for (const char* const name : {"bridge", "firewall", "portmap", "host-local"}) {
    static_cast<void>(PluginCommand("VERSION", "", {}, name));  // links it
  }
  ExpectNoFailure();
}

// ---- broken nodes

struct BrokenTrial : Named {
  std::string damage;  // run by sh on the host
  std::string says;
};

class BrokenNodeTrial : public TrialWorld, public ::testing::WithParamInterface<BrokenTrial> {};

TEST_P(BrokenNodeTrial, IsFound) {
  Attach(Publish({Port(8090, 80)}, DualStack()));
  host().Shell(GetParam().damage);
  EXPECT_THAT(RunLine("test"), Exits(1, Out(HasSubstr(GetParam().says))));
}

const std::string kTrialVpn =
    "ip link add vpn type veth peer name far; ip link set far up; ip link set vpn up; "
    "ip route add 172.26.64.0/20 dev vpn table 52; ";

INSTANTIATE_TEST_SUITE_P(
    Nodes,
    BrokenNodeTrial,
    ::testing::ValuesIn(std::vector<BrokenTrial>{
        {"BeforeTranslation",
         "nft 'table ip mine { chain early { type filter hook prerouting priority raw; iifname "
         "uplink tcp dport 61000-65535 drop; }; }'",
         "chain early of table ip mine"},
        {"BehindTranslation",
         "nft 'table inet mine { chain p { type filter hook prerouting priority 0; iifname uplink "
         "ip daddr 172.26.64.0/20 drop; }; }'",
         "chain p of table inet mine"},
        {"BehindTranslation6",
         "nft 'table inet mine { chain p { type filter hook prerouting priority 0; iifname uplink "
         "ip6 daddr fd00:26::/64 tcp dport 8080 drop; }; }'",
         "chain p of table inet mine"},
        {"PolicyOfForward",
         "nft 'table inet mine { chain forward { type filter hook forward priority 10; policy "
         "drop; }; }'",
         "chain forward of table inet mine (policy drop)"},
        {"ChainThatIsJumpedTo",
         "nft 'table inet mine { chain far { tcp dport 8080 drop; }; chain f { type filter hook "
         "forward priority -10; jump far; }; }'",
         "chain far of table inet mine"},
        {"Iptables",
         "iptables -I FORWARD -p tcp --dport 8080 -j DROP",
         "chain FORWARD of table ip "},
        {"Ip6tables",
         "ip6tables -I FORWARD -p tcp --dport 8080 -j DROP",
         "chain FORWARD of table ip6 "},
        {"Reject", "iptables -I FORWARD -o uplink -j REJECT", "chain FORWARD of table ip filter"},
        {"QueueWithoutAReader",
         "iptables -I FORWARD -p tcp -j NFQUEUE --queue-num 3",
         "hands to a program that does not answer"},
        {"MarkTakenAway",
         "iptables -P FORWARD DROP; nft 'table inet mine { chain f { type filter hook forward "
         "priority filter; meta mark set 0; }; }'",
         "chain FORWARD of table ip filter (policy drop)"},
        {"OperatorsChain", "iptables -I NOMAD-ADMIN -j DROP", "chain NOMAD-ADMIN of table ip"},
        {"Untracked",
         "iptables -t raw -I PREROUTING -i uplink -j CT --notrack",
         "changes how conntrack follows packets for the port"},
        {"Zone",
         "iptables -t raw -A PREROUTING -i nomad -j CT --zone 7",
         "changes how conntrack follows"},
        {"RedirectToTheNode",
         "iptables -t nat -I PREROUTING -i uplink -p tcp -j REDIRECT --to-ports 9999",
         "redirects packets for the port"},
        {"RedirectToAnother",
         "nft 'table ip mine { chain p { type nat hook prerouting priority -110; iifname uplink "
         "meta l4proto tcp dnat to 198.51.100.77:80; }; }'",
         "redirects packets for the port"},
        {"OutputOfTheBridge",
         "nft 'table bridge mine { chain o { type filter hook output priority 0; ip daddr "
         "172.26.64.0/20 tcp dport 8080 drop; }; }'",
         "chain o of table bridge mine"},
        {"PreroutingOfTheBridge",
         "nft 'table bridge mine { chain p { type filter hook prerouting priority 0; tcp sport "
         "8080 drop; }; }'",
         "chain p of table bridge mine"},
        {"ForwardOfTheBridge",
         "nft 'table bridge mine { chain f { type filter hook forward priority 0; tcp dport 8080 "
         "drop; }; }'",
         "chain f of table bridge mine"},
        {"PostroutingOfTheAnswer",
         "nft 'table inet mine { chain p { type filter hook postrouting priority 200; oifname "
         "uplink tcp sport 61000-65535 drop; }; }'",
         "chain p of table inet mine"},
        {"IngressOfTheUplink",
         "nft 'table netdev mine { chain i { type filter hook ingress device uplink priority 0; "
         "meta l4proto tcp drop; }; }'",
         "chain i of table netdev mine"},
        {"EgressOfTheUplink",
         "nft 'table netdev mine { chain e { type filter hook egress device uplink priority 0; "
         "meta l4proto tcp drop; }; }'",
         "chain e of table netdev mine"},
        {"OutputOfTheNode",
         "nft 'table inet mine { chain o { type filter hook output priority raw; tcp dport "
         "61000-65535 drop; }; }'",
         "chain o of table inet mine"},
    }),
    kNameOf);

INSTANTIATE_TEST_SUITE_P(
    ThoroughNodes,
    BrokenNodeTrial,
    ::testing::ValuesIn(std::vector<BrokenTrial>{
        {"Arp",
         "nft 'table arp mine { chain in { type filter hook input priority 0; policy drop; }; }'; "
         "ip neigh flush all",
         "chain in of table arp mine (policy drop) drops ARP re"},
        {"ArpOnTheBridge",
         "nft 'table bridge mine { chain i { type filter hook input priority 0; ether type arp "
         "drop; }; }'; ip neigh flush all",
         "chain i of table bridge mine"},
        {"Advertisements",
         "nft 'table inet mine { chain o { type filter hook output priority 0; icmpv6 type "
         "nd-neighbor-advert drop; }; }'",
         "drops neighbour advertisements"},
        {"IptablesLegacy",
         "iptables-legacy -t mangle -I FORWARD -p tcp --dport 8080 -j DROP",
         "rules that nf_tables does not show drop packets"},
        {"RuleOfAVpn",
         kTrialVpn + "ip rule add lookup 52 priority 5270",
         "of the node's routing rules, 'from all lookup 52' comes first"},
        {"RuleOfAVpnForAnUplink",
         kTrialVpn + "ip rule add iif uplink lookup 52 priority 5270",
         "'from all iif uplink lookup 52' comes first"},
        {"RuleForRequests",
         "ip rule add iif uplink prohibit priority 100",
         "a route or rule there prohibits it"},
        {"MarkOfAnswers",
         "iptables -t mangle -A PREROUTING -i nomad -j MARK --set-mark 5; ip rule add fwmark 5 "
         "lookup 99; ip route add blackhole default table 99",
         "a route there is a blackhole"},
        {"HopLimit",
         "iptables -t mangle -A PREROUTING -i uplink -j TTL --ttl-set 1",
         "though it has a route for it"},
        {"Ipsec",
         "ip xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 dir fwd priority 9 action block",
         "the node does not forward"},
        {"SilentGateway",
         "ip route replace default via 198.51.100.250 dev uplink",
         "nobody on 'uplink' answers for the gateway 198.51.100.250"},
        {"ForwardingOfTheUplink",
         "sysctl -w net.ipv4.conf.uplink.forwarding=0",
         "net/ipv4/conf/uplink/forwarding is 0"},
        {"FilterOfTheUplink",
         "tc qdisc add dev uplink clsact; tc filter add dev uplink ingress protocol ip bpf "
         "bytecode '1,6 0 0 2,' direct-action",
         "a filter of tc on 'uplink' may drop it"},
        {"QueueOfTheUplink",
         "tc qdisc add dev uplink root blackhole",
         "'uplink' sends nothing: its queue is a blackhole"},
        {"UplinkDown", "ip link set uplink down", "interface 'uplink', which leads to it, is down"},
        {"WithoutAddress", "ip address flush dev uplink", "this node has no address for IPv4"},
        {"WithoutDefaultRoute",
         "ip route delete default",
         "this node has no default route for IPv4; it had one when a port was published"},
        {"WithoutDefaultRoute6",
         "ip -6 route delete default",
         "this node has no default route for IPv6; it had one when a port was published"},
    }),
    kNameOf);

TEST_F(Trial, FindsAFullConntrackTable) {
  std::ofstream("/run/count") << "100\n";
  std::ofstream("/run/max") << "100\n";
  const Mounted count({"--bind", "/run/count"}, "/proc/sys/net/netfilter/nf_conntrack_count");
  const Mounted max({"--bind", "/run/max"}, "/proc/sys/net/netfilter/nf_conntrack_max");
  EXPECT_THAT(RunLine("test"), Exits(1, Out(HasSubstr("conntrack is full, 100 of 100"))));
}

TEST_F(Trial, FindsANameServerThatIsAStub) {
  ReplaceFile("/run/stub.conf", "nameserver 127.0.0.53\n");
  const Mounted stub({"--bind", "/run/stub.conf"}, "/etc/resolv.conf");
  EXPECT_THAT(RunLine("test"),
              Exits(1,
                    Out(AllOf(HasSubstr("X  name server 127.0.0.53: "),
                              HasSubstr("advice: name a resolver that it reaches"),
                              HasSubstr(" 1 failed")))));
  Configure({DualStack({{"dns", {{"nameservers", {"203.0.113.53"}}}}})});
  ExpectNoFailure();
}

}  // namespace
}  // namespace nomad_bridge::test
