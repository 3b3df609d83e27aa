// A bridge that is the node's own: its way to the LAN, with its address and its default route.
#include "tests/plugin/lan_world.h"
#include "tests/support/router_advertisement.h"

namespace nomad_bridge::test {
namespace {

class LanBridge : public LanWorld {};

TEST_F(LanBridge, KeepsItsAddressAndItsRouteByDefault) {
  EXPECT_THAT(MustRefuse(102, Config({{"bridge", "lan"}})),
              AllOf(Msg(AllOf(HasSubstr("'lan'"), HasSubstr("198.51.100.1/24"))),
                    Details(AllOf(HasSubstr("forceAddress"), HasSubstr("isGateway")))));

  EXPECT_TRUE(Ping(host(), kOutsideIp4));
}

TEST_F(LanBridge, KeepsItsIpv6AddressByDefault) {
  EXPECT_THAT(MustRefuse(102,
                         Config({{"bridge", "lan"},
                                 {"ipam",
                                  {{"subnet", "2001:db8:100::/48"},
                                   {"rangeStart", "2001:db8:100::50"},
                                   {"gateway", "2001:db8:100::9"}}}})),
              Msg(HasSubstr("2001:db8:100::1/64")));
}

TEST_F(LanBridge, LosesItsAddressOnlyIfTheConfigSaysSo) {
  Attach(Config({{"bridge", "lan"}, {"forceAddress", true}}));

  EXPECT_THAT(AddressesOn(host(), "lan"), ElementsAre("172.26.64.1/20", "2001:db8:100::1/64"));
}

TEST_F(LanBridge, DoesNotChangeMasqueradingOfOtherNetworks) {
  Attach(DualStack());
  ExpectSeenAs(container(), kHostIp4, kHostIp6);

  Attach(OnLan(), As("other", other_));

  ExpectSeenAs(container(), kHostIp4, kHostIp6);
}

TEST_F(LanBridge, DoesNotChangeMasqueradingWithAnotherPluginsLinkEither) {
  Attach(DualStack());
  json interface = OnLan();
  interface["type"] = "bridge";
  interface["ipam"]["type"] = "host-local";

  const json firewall = {{"type", "firewall"}};

  MustAdd({.list = ListOf({interface, firewall, PortmapEntry()}, "lan"),
           .path = MixedPath({"firewall", "portmap"})},
          WithPorts("other", other_, {Port(8080, 80)}));
  ExpectSeenAs(container(), kHostIp4, kHostIp6);
}

TEST_F(LanBridge, AllocationKeepsItsSourceOnTheLan) {
  SetBridgeNf("1");
  Attach(OnLan());

  ExpectSeenAs(container(), "198.51.100.50", "2001:db8:100::50");
}

// The operator's own router: behind it is outside, as for every node.
TEST_F(LanBridge, AllocationHasTheNodesSourceBeyondTheLan) {
  host().Must(Words("ip address add 10.7.0.1/24 dev lan"));

  Attach(OnLan({{"isDefaultGateway", false},
                {"ipam",
                 {{"ranges", {{{{"subnet", "10.7.0.0/24"}}}}},
                  {"routes", {{{"dst", "203.0.113.0/24"}}}}}}}));
  host().SetSysctl("net/ipv4/ip_forward", "1");
  host().Must(Words("ip link add beyond type veth peer name beyond netns other"));
  host().Must(Words("ip address add 203.0.113.1/24 dev beyond"));
  host().Must(Words("ip link set beyond up"));
  other_.Must(Words("ip address add 203.0.113.2/24 dev beyond"));
  other_.Must(Words("ip link set beyond up"));
  Serve(other_, Protocol::kTcp, {"203.0.113.2"}, kPort, "beyond");

  EXPECT_EQ(AskOutside(container(), "203.0.113.2"), (Reply{"beyond", "203.0.113.1"}));
}

TEST_F(LanBridge, AllocationReachesTheNodesOwnAllocations) {
  Attach(DualStack());
  Serve(container(), Protocol::kTcp, {"172.26.64.2"}, kPort, "routed");
  Attach(OnLan(), As("other", other_));
  other_.Must(Words(Cat("ip route add 172.26.64.0/20 via ", kHostIp4)));

  EXPECT_EQ(AskOutside(other_, "172.26.64.2"), (Reply{"routed", "198.51.100.50"}));
}

TEST_F(LanBridge, LeavesOtherNetworksClosedToTheLan) {
  Attach(DualStack());
  Serve(container(), Protocol::kTcp, {"172.26.64.2", "fd00:26::2"}, kPort, "routed");
  Attach(OnLan(), As("other", other_));
  other_.Must(Words(Cat("ip route add 172.26.64.0/20 via ", kHostIp4)));
  other_.Must(Words(Cat("ip -6 route add fd00:26::/64 via ", kHostIp6)));

  for (const char* const address : {"172.26.64.2", "fd00:26::2"}) {
    EXPECT_TRUE(IsSilent(outside(), {.to = address, .port = kPort})) << address;
    EXPECT_EQ(TcpText(other_, address, kPort), "routed") << address;
    EXPECT_EQ(TcpText(host(), address, kPort), "routed") << address;
  }
}

// Also where the config says that the node is its gateway, by the address that the node has there.
TEST_F(LanBridge, IsOutsideOfOtherNetworksEvenWithAGateway) {
  Attach(DualStack());
  Serve(container(), Protocol::kTcp, {"172.26.64.2", "fd00:26::2"}, kPort, "routed");

  Attach(OnLanBehindTheNode(), As("other", other_));

  ExpectSeenAs(container(), kHostIp4, kHostIp6);
  ExpectSeenAs(other_, "198.51.100.50", "2001:db8:100::50");
  EXPECT_TRUE(IsSilent(outside(), {.to = "172.26.64.2", .port = kPort}));
  EXPECT_TRUE(IsSilent(outside(), {.to = "fd00:26::2", .port = kPort}));
}

TEST_F(LanBridge, IsInOurSetsAsLongAsAnAllocationIsBehindIt) {
  UseOnce(DualStack());
  const std::string before = ListTable();
  Attach(OnLanBehindTheNode());
  Attach(OnLan(), As("other", other_));
  Detach(OnLanBehindTheNode());
  EXPECT_THAT(Elements("bridges").dump(), HasSubstr("\"lan\""));
  Detach(OnLan(), As("other", other_));
  EXPECT_EQ(ListTable(), before);
}

TEST_F(LanBridge, IsOutsideOfOtherNetworksEvenWithAnotherPlugin) {
  Attach(DualStack());
  json config = OnLanBehindTheNode();
  config["ipam"]["type"] = "host-local";
  const Network network{.list = ListOf({{{"type", "bridge"},
                                         {"bridge", "lan"},
                                         {"isGateway", true},
                                         {"ipam", config.at("ipam")}},
                                        {{"type", "firewall"}}}),
                        .path = MixedPath({"firewall"})};
  MustAdd(network, As("other", other_));
  EXPECT_THAT(Elements("bridges").dump(), HasSubstr("\"lan\""));
  EXPECT_THAT(Elements("gateways").dump(), Not(HasSubstr("\"lan\"")));
  ExpectSeenAs(container(), kHostIp4, kHostIp6);
}

// As a command leaves it that was killed, or an earlier release. Whoever made it.
TEST_F(LanBridge, IsRemovedFromOurSetsIfNoRecordNamesIt) {
  UseOnce(kOther);
  Attach(DualStack());
  const std::string before = ListTable();
  for (const char* const set : {"bridges", "gateways"}) {
    host().Must(Words(Cat("nft add element inet nomad-bridge ", set, " { lan, br-other }")));
  }
  EXPECT_THAT(RunLine("gc -dry-run").out,
              AllOf(HasSubstr("lan in gateways has no owner"),
                    HasSubstr("br-other in gateways has no owner")));
  EXPECT_EQ(RunLine("gc").exit_code, 0);
  EXPECT_EQ(ListTable(), before);
}

// The operator's own rules about what is his.
TEST_F(LanBridge, LeavesTheOperatorsPublishedPortsToTheOperatorsFilter) {
  struct Way {
    std::string tool;
    std::string machine;
    std::string to;
  };
  AddMachine();
  const Node& beyond = AddBeyond();
  Attach(Publish({Port(8080, 80)}, OnLan()));
  for (const Way& way : {Way{"iptables", "198.51.100.77", "203.0.113.1"},
                         Way{"ip6tables", "[2001:db8:100::77]", "2001:db8:203::1"}}) {
    const auto rule = [&](const std::string& words) {
      host().Must(Words(Cat(way.tool, ' ', words)));
    };
    rule("-P FORWARD DROP");
    rule("-A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT");
    rule(Cat("-t nat -A PREROUTING -i beyond -p tcp --dport 7070 -j DNAT --to-destination ",
             way.machine,
             ':',
             kPort));

    EXPECT_TRUE(IsSilent(beyond, {.to = way.to, .port = 7070})) << way.to;
    rule(Cat("-A FORWARD -p tcp --dport ", kPort, " -j ACCEPT"));
    EXPECT_EQ(TcpText(beyond, way.to, 7070), "machine");
    rule(Cat("-I FORWARD -p tcp --sport ", kPort, " -j DROP"));
    EXPECT_TRUE(IsSilent(beyond, {.to = way.to, .port = 7070})) << "answers to " << way.to;
  }
}

TEST_F(LanBridge, WarnsThatItsPublishedPortsNeedForwarding) {
  EXPECT_THAT(MustRun("ADD", Publish({Port(8080, 80)}, OnLan())),
              Err(HasSubstr("net/ipv4/ip_forward is 0: packets for containers are not forwarded")));
  EXPECT_THAT(Run({"doctor"}).out,
              HasSubstr("net/ipv4/ip_forward is 0: packets for containers are not forwarded"));
  host().Must(Words("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1"));
  EXPECT_THAT(MustRun("ADD", Publish({Port(8080, 80)}, OnLan())), Err(Not(HasSubstr("is 0"))));
}

// sourceCheck would drop all that the container sends by them.
TEST_F(LanBridge, GivesAContainerWithoutIpv6NoAddressAndNoRoute) {
  Attach(OnLanWithoutIpv6());
  ASSERT_TRUE(Soon([&] { return AdvertiseRouter(outside(), "uplink"); }));
  ASSERT_TRUE(Ping(container(), kOutsideIp4));
  EXPECT_THAT(RoutesTo(container(), "default"), IsEmpty());
  EXPECT_EQ(container().Sysctl("net/ipv6/conf/eth0/accept_ra"), "0");
}

TEST_F(LanBridge, GivesAContainerWithIpv6NoOtherAddressThanItsOwn) {
  Attach(OnLan({{"sourceCheck", true}}));
  ASSERT_TRUE(Soon([&] { return AdvertiseRouter(outside(), "uplink", "2001:db8:100::"); }));
  ASSERT_TRUE(Soon([&] {
    return container().Must(Words("ip -6 route show default")).find("proto ra") !=
           std::string::npos;
  }));
  ExpectSeenAs(container(), "198.51.100.50", "2001:db8:100::50");
}

// A fixed address may have been on another node until now, behind another port of the LAN's
// switches.
class LanBridgeAnnouncement : public LanBridge, public ::testing::WithParamInterface<bool> {};

TEST_P(LanBridgeAnnouncement, ReachesNeighboursAtOnce) {
  if (const bool is_filtered = GetParam(); is_filtered) {
    DropForwarded();
    SetBridgeNf("1");
  }
  for (const char* const address : {"198.51.100.50", "2001:db8:100::50"}) {
    outside().Must(
        Words(Cat("ip neigh replace ", address, " lladdr 02:00:00:00:00:99 dev uplink nud stale")));
  }
  Attach(OnLan());
  EXPECT_TRUE(Soon([&] {
    return outside().Must(Words("ip neigh")).find("02:00:00:00:00:99") == std::string::npos;
  })) << outside().Must(Words("ip neigh"));
}

INSTANTIATE_TEST_SUITE_P(Lan,
                         LanBridgeAnnouncement,
                         ::testing::Bool(),
                         [](const auto& is_filtered) {
                           return is_filtered.param ? "ThatDropsForwarded" : "ThatForwards";
                         });

class LanBridgeFilter : public LanBridge, public ::testing::WithParamInterface<const char*> {
 protected:
  LanBridgeFilter() { SetBridgeNf(GetParam()); }

  struct Served {
    std::vector<std::string> addresses;
    std::string text;
  };

  // Both ways.
  void ExpectConnectedToTheLan(const Node& node, const Served& served) {
    for (const std::string& address : served.addresses) {
      EXPECT_EQ(TcpText(outside(), address, kPort), served.text) << address;
    }
    for (const char* const address : {kOutsideIp4, kOutsideIp6}) {
      EXPECT_EQ(TcpText(node, address, kPort), "outside") << served.text << " to " << address;
    }
  }
};

// What conntrack does not know: it has seen one direction only, or nothing yet.
TEST_P(LanBridgeFilter, LeavesForeignPacketsWithoutAConnectionAlone) {
  AddMachine();
  Attach(OnLan(), As("other", other_));
  std::vector<Connection> connections;
  for (const char* const address : {kOutsideIp4, kOutsideIp6}) {
    auto connection = Connection::Open(machine(), {.to = address, .port = kPort});
    ASSERT_TRUE(connection) << address;
    connections.push_back(*std::move(connection));
  }
  host().SetSysctl("net/netfilter/nf_conntrack_tcp_loose", "0");
  host().Must(Words("conntrack -F"));
  for (Connection& connection : connections) {
    EXPECT_TRUE(connection.Echoes("still there"));
  }
}

TEST_P(LanBridgeFilter, IsolatesAllocationsOnly) {
  AddMachine();
  const json isolated = OnLan({{"ingressPolicy", "isolated"}});
  Attach(isolated);
  Attach(isolated, As("other", other_));
  const Served allocation{{"198.51.100.50", "2001:db8:100::50"}, "allocation"};
  const Served virtual_one{{"198.51.100.77", "2001:db8:100::77"}, "machine"};
  Serve(container(), Protocol::kTcp, allocation.addresses, kPort, allocation.text);

  ExpectConnectedToTheLan(container(), allocation);
  ExpectConnectedToTheLan(machine(), virtual_one);
  for (const std::string& address : allocation.addresses) {
    EXPECT_EQ(TcpText(machine(), address, kPort), allocation.text);
    EXPECT_TRUE(IsSilent(other_, {.to = address, .port = kPort}));
  }

  Detach(isolated, As("other", other_));
  ExpectConnectedToTheLan(container(), allocation);
  Detach(isolated);
  ExpectConnectedToTheLan(machine(), virtual_one);
}

// With br_netfilter, too, where what passes the bridge goes through the forward hook.
TEST_P(LanBridgeFilter, LetsTheLanInToItsAllocation) {
  Attach(OnLan());
  Serve(container(), Protocol::kTcp, {"198.51.100.50", "2001:db8:100::50"}, kPort, "on the LAN");

  EXPECT_EQ(TcpText(outside(), "198.51.100.50", kPort), "on the LAN");
  EXPECT_EQ(TcpText(outside(), "2001:db8:100::50", kPort), "on the LAN");
}

INSTANTIATE_TEST_SUITE_P(BridgeNfCall, LanBridgeFilter, ::testing::Values("0", "1"));

TEST_F(LanBridge, HearsItsRouterAfterItsUplinkWasUnplugged) {
  host().SetSysctl("net/ipv6/conf/lan/accept_ra", "2");
  const json config = OnLan();
  const json result = Attach(config);
  host().Must(Words("ip link set uplink nomaster"));

  MustCheck(config, result);
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err("")));

  EXPECT_EQ(host().Sysctl("net/ipv6/conf/lan/accept_ra"), "2");
}

// A bridge that we made, which its operator made a way to the LAN since.
TEST_F(LanBridge, KeepsTheNodesAddressEvenIfWeCreatedIt) {
  UseOnce(Config());
  host().Must(Words("ip address flush dev nomad scope global"));
  host().Must(Words("ip link set uplink master nomad"));
  host().Must(Words("ip address add 203.0.113.1/24 dev nomad"));

  MustRefuse(102, Config());
}

TEST_F(LanBridge, IsOutsideFromTheNextFirstAllocationIfWeCreatedIt) {
  const json config =
      Config({{"name", "wan"}, {"bridge", "wan"}, {"ipam", {{"subnet", "10.8.0.0/24"}}}});
  UseOnce(config, As("other", other_));
  Attach(DualStack());
  Serve(container(), Protocol::kTcp, {"172.26.64.2"}, kPort, "routed");
  host().Must(Words("ip link set lan nomaster"));
  host().Must(Words("ip address flush dev lan"));
  host().Must(Words("ip link set uplink master wan"));
  host().Must(Words(Cat("ip address add ", kHostIp4, "/24 dev wan")));
  outside().Must(Words(Cat("ip route add 172.26.64.0/20 via ", kHostIp4)));

  Attach(config, As("other", other_));
  EXPECT_THAT(RunLine("doctor"), Out(HasSubstr("'uplink' is a port of our bridge 'wan'")));
  EXPECT_THAT(Elements("gateways").dump(), Not(HasSubstr("wan")));
  EXPECT_TRUE(IsSilent(outside(), {.to = "172.26.64.2", .port = kPort}));
  EXPECT_EQ(AskOutside(container(), kOutsideIp4), (Reply{"outside", kHostIp4}));
  EXPECT_EQ(other_.Sysctl("net/ipv6/conf/eth0/accept_ra"), "0");
  EXPECT_THAT(RunLine("reconcile -dry-run"), Exits(0));
}

// With its last allocation it has left our sets.
TEST_F(LanBridge, IsOutsideAtOnceIfWeCreatedItAndItHasNoAllocation) {
  UseOnce(Config({{"name", "wan"}, {"bridge", "wan"}, {"ipam", {{"subnet", "10.8.0.0/24"}}}}));
  Attach(DualStack());
  host().Must(Words("ip link set lan nomaster"));
  host().Must(Words("ip address flush dev lan"));
  host().Must(Words("ip link set uplink master wan"));
  host().Must(Words(Cat("ip address add ", kHostIp4, "/24 dev wan")));
  host().Must(Words(Cat("ip address add ", kHostIp6, "/64 dev wan nodad")));

  ExpectSeenAs(container(), kHostIp4, kHostIp6);
}

// Ours have the same one on every node: with an uplink each needs its own.
TEST_F(LanBridge, KeepsAMacFromItsOperatorIfWeCreatedIt) {
  const json config = DualStack();
  const json result = Attach(config, As("other", other_));
  host().Must(Words("ip link set nomad address 02:00:5e:00:00:01"));

  EXPECT_EQ(MustCheck(config, result, As("other", other_)).err, "");
  Attach(config);

  EXPECT_EQ(LinkOn(host(), "nomad").at("address"), "02:00:5e:00:00:01");
  for (const Node* const node : {&container(), &other_}) {
    ExpectSeenAs(*node, kHostIp4, kHostIp6);
  }
}

TEST_F(LanBridge, GetsTheNetworksNewAddressIfItHasNoUplink) {
  UseOnce(Config());

  Attach(Config(R"({"ipam": {"subnet": "10.7.0.0/24"}})"));

  EXPECT_THAT(AddressesOn(host(), "nomad"), ElementsAre("10.7.0.1/24"));
}

}  // namespace
}  // namespace nomad_bridge::test
