// The ways by which a published port is reached, each with the stations that inspect shows: all
// kinds of clients, both families, both settings of br_netfilter.
#include "tests/plugin/lan_world.h"
#include "tests/plugin/probe_world.h"

namespace nomad_bridge::test {
namespace {

// "uplink prerouting route" of the first connection, which is answered.
std::string StationsOf(const json& diagnosis) {
  std::string names;
  for (const json& station : At(diagnosis, "/ways/0/stations")) {
    EXPECT_EQ(station.at("state"), "passed") << diagnosis.at("ways");
    names += Cat(names.empty() ? "" : " ", station.at("name").get<std::string>());
  }
  return names;
}

class ProbeWays : public ProbeWorld {
 protected:
  [[nodiscard]] std::string WayFrom(const std::string& client, const std::string& port = "8080") {
    return StationsOf(DiagnosisOf(Cat(port, " -from ", client)));
  }
};

constexpr const char* kRouted = "uplink prerouting route forward nomad container service answer";

TEST_F(ProbeWays, BeginBeyondTheNode) {
  EXPECT_EQ(StationsOf(Diagnose(kTcp)), kRouted);
  EXPECT_EQ(StationsOf(Diagnose(kFar)), kRouted);
  EXPECT_EQ(WayFrom(kOutsideIp6), kRouted);
  EXPECT_EQ(StationsOf(DiagnosisOf("8081")), kRouted) << "published on one address";
}

TEST_F(ProbeWays, CoverAllPublishedPortsOfAnAllocation) {
  const json ways = DiagnosisOf(kAllocation).at("ways");
  std::vector<std::string> connections;
  for (const json& way : ways) {
    EXPECT_EQ(way.at("answered"), true) << way;
    connections.push_back(way.at("connection"));
  }
  EXPECT_THAT(connections, UnorderedElementsAre("tcp 8080", "tcp 8080", "udp 8080", "tcp 8081"));
}

// What it answers is not probed.
TEST_F(ProbeWays, EndAtTheServiceForADatagram) {
  const json ways = DiagnosisOf("8080").at("ways");
  const auto udp = std::ranges::find_if(
      ways, [](const json& way) { return way.at("connection") == "udp 8080"; });
  ASSERT_NE(udp, ways.end());
  EXPECT_EQ(udp->at("stations").back().at("name"), "service");
  host().Nft(
      "table inet mine { chain f { type filter hook forward priority -10; udp dport 80 drop; }; }");
  const json said = DiagnosisOf("8080");
  EXPECT_THAT(At(said, "/causes/0/what").get<std::string>(),
              HasSubstr("chain f of table inet mine (rule with handle 2: udp dport 80 drop)"));
}

TEST_F(ProbeWays, MayBeginAtTheNode) {
  EXPECT_EQ(WayFrom(kHostIp4), "output nomad container service answer");
  EXPECT_EQ(WayFrom("127.0.0.1"), "output nomad container service answer");
  ASSERT_EQ(TcpText(host(), kHostIp4, 8080), "hello");
  host().Nft(
      "table inet mine { chain r { type filter hook output priority raw; tcp dport 8080 drop; }; "
      "}");
  EXPECT_EQ(TcpText(host(), kHostIp4, 8080), "");
  EXPECT_EQ(Diagnose(kTcp).at("cause"), nullptr) << "others are answered";
  const json said = DiagnoseFrom(kHostIp4);
  EXPECT_THAT(said.at("cause").get<std::string>(),
              HasSubstr("chain r of table inet mine (rule with handle 2: tcp dport 8080 drop)"));
  Paste(At(said, "/causes/0/fix"));
  EXPECT_EQ(TcpText(host(), kHostIp4, 8080), "hello");
}

// The way back to kFarIp4 is by the other uplink.
class ProbeTwoUplinks : public ProbeWays {
 protected:
  void SetUp() override {
    ProbeWays::SetUp();
    host().Shell(
        "ip link add other type veth peer name back netns outside; ip -n outside link set back up; "
        "ip link set other up; ip address add 10.9.0.1/24 dev other; ip -n outside address add "
        "10.9.0.2/24 dev back; ip -n outside route add 198.51.100.9 via 10.9.0.1");
    ASSERT_TRUE(Asks());
  }
  // Of kFarIp4, whose packets come in by it.
  [[nodiscard]] bool Asks() {
    return test::Ask(outside(),
                     {.to = kSecondIp4,
                      .port = 8081,
                      .from = kFarIp4,
                      .patience = std::chrono::milliseconds(700)})
        .has_value();
  }

  const std::string kLine = Cat("inspect 8081 -from ", kFarIp4);
  const std::string kByOther = Cat(kLine, "%other");
};

TEST_F(ProbeTwoUplinks, SayThatAnswersLeaveByTheOther) {
  EXPECT_THAT(RunLine(kByOther),
              Exits(0,
                    Out(AllOf(HasSubstr("tcp 8081  other"),
                              HasSubstr("packets that come in by 'other' from 203.0.113.5 are "
                                        "answered by way of 'uplink': a router or firewall")))));
  host().Shell(
      "ip rule add from 172.26.64.0/20 lookup 100; ip route add default via 10.9.0.2 table 100");
  ASSERT_TRUE(Asks());
  EXPECT_THAT(RunLine(kByOther), Exits(0, Out(Not(HasSubstr("answered by way of")))));
  EXPECT_THAT(RunLine(kLine),
              Exits(0,
                    Out(HasSubstr("answered by way of 'other', by the routing rule 'from "
                                  "172.26.64.0/20 lookup 100'"))));
}

TEST_F(ProbeTwoUplinks, NameTheReversePathFilterOfTheLinkThatIsNamed) {
  host().SetSysctl("net/ipv4/conf/all/rp_filter", "0");
  host().SetSysctl("net/ipv4/conf/other/rp_filter", "1");
  EXPECT_FALSE(Asks());
  EXPECT_THAT(RunLine(kLine), Exits(0, Out(HasSubstr("ask with -from 203.0.113.5%other"))));
  EXPECT_THAT(RunLine(Cat(kLine, "%nowhere")),
              Exits(2, Err(HasSubstr("this node has no interface 'nowhere'"))));
  const json said = DiagnosisOf(Cat("8081 -from ", kFarIp4, "%other"));
  EXPECT_THAT(said.at("cause").get<std::string>(),
              HasSubstr("packets that arrive on 'other' from 203.0.113.5 are dropped"));
  Process trace =
      Process::Start(Line({"inspect", "8081", "-no-probe", "-trace", "-from", kFarIp4}));
  ASSERT_TRUE(Soon([&] {
    return host().Must({"nft", "list", "tables"}).find("nomad-bridge-probe") != std::string::npos;
  }));
  EXPECT_FALSE(Asks());
  EXPECT_THAT(trace.Wait(), Exits(1, Out(HasSubstr("packets that arrive on 'other' from"))));
  Paste(At(said, "/causes/0/fix"));
  EXPECT_TRUE(Asks());
}

TEST_F(ProbeWays, BeginAtTheNodeForAPortOn127001) {
  Node& other = AddContainer("other");
  Attach(Publish({Port(8082, 80, "tcp", "127.0.0.1")}), As("other", other));
  Serve(other, Protocol::kTcp, {"0.0.0.0"}, 80, "hello");
  ASSERT_EQ(TcpText(host(), "127.0.0.1", 8082), "hello");
  EXPECT_EQ(StationsOf(DiagnosisOf("8082")), "output nomad container service answer");
}

class ProbeNeighbours : public ProbeWays {
 protected:
  void SetUp() override {
    ProbeWays::SetUp();
    neighbour_ = AddressOf(Attach(DualStack(), As("other", other_)));
  }

  Node& other_ = AddContainer("other");
  std::string neighbour_;
};

TEST_F(ProbeNeighbours, UseThePublishedPort) {
  for (const char* const bridge_nf : {"0", "1"}) {
    SetBridgeNf(bridge_nf);
    ASSERT_EQ(TcpText(other_, kHostIp4, 8080), "hello") << bridge_nf;
    EXPECT_EQ(WayFrom(neighbour_), "client prerouting route forward nomad container service answer")
        << bridge_nf;
    EXPECT_EQ(WayFrom(address_), "client prerouting route forward nomad container service answer")
        << "the allocation itself, with br_netfilter " << bridge_nf;
    EXPECT_EQ(StationsOf(Diagnose(kTcp)), kRouted) << bridge_nf;
  }
}

TEST_F(ProbeNeighbours, AreKeptOutByRulesOfTheBridge) {
  host().Nft(
      "table bridge mine { chain f { type filter hook forward priority 0; tcp dport 80 "
      "drop; }; }");
  const std::string to = Cat("other -to ", address_, ":80");
  EXPECT_EQ(TcpText(other_, address_, 80), "");
  const json said = DiagnosisOf(to);
  EXPECT_EQ(FailedStation(said), "nomad");
  EXPECT_THAT(said.at("cause").get<std::string>(), HasSubstr("chain f of table bridge mine"));
  Paste(At(said, "/causes/0/fix"));
  EXPECT_EQ(TcpText(other_, address_, 80), "hello");
  EXPECT_EQ(StationsOf(DiagnosisOf(to)), "client nomad container service answer");
}

// The node's own bridge to its LAN: allocations there have addresses of the LAN.
class ProbeOnLan : public LanWorld {
 protected:
  void SetUp() override {
    host().SetSysctl("net/ipv4/ip_forward", "1");
    host().SetSysctl("net/ipv6/conf/all/forwarding", "1");
    const json routes = {{{"dst", "0.0.0.0/0"}}, {{"dst", "::/0"}}};
    Attach(Publish({Port(8080, 80)}, OnLan({{"ipam", {{"routes", routes}}}})));
    Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 80, "hello");
    ASSERT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
  }
  [[nodiscard]] json DiagnosisOf(const std::string& words) {
    return At(RunLine(Cat("inspect -json ", words)).json, "/attachments/0/diagnosis");
  }
};

TEST_F(ProbeOnLan, PassesTheBridgeTwice) {
  EXPECT_EQ(StationsOf(DiagnosisOf("8080")),
            "lan prerouting route forward network container service answer");
}

// With br_netfilter what comes for the allocation would be bridged to it.
TEST_F(ProbeOnLan, NamesARuleAtTheInputOfTheBridge) {
  SetBridgeNf("0");
  host().Nft(
      "table bridge mine { chain i { type filter hook input priority 0; tcp dport "
      "{ 80, 8080 } drop; }; }");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "");
  const json said = DiagnosisOf("8080");
  EXPECT_THAT(said.at("cause").get<std::string>(),
              HasSubstr("chain i of table bridge mine (rule with handle"));
  host().Shell(At(said, "/causes/0/fix").get<std::string>());
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
}

TEST_F(ProbeOnLan, ReachesTheAllocationsOwnAddressByTheBridgeAlone) {
  const std::string to = Cat("8080 -from ", kOutsideIp4, " -to 198.51.100.50:80");
  ASSERT_EQ(TcpText(outside(), "198.51.100.50", 80), "hello");
  EXPECT_EQ(StationsOf(DiagnosisOf(to)), "lan network container service answer");
  SetBridgeNf("1");
  DropForwarded();
  EXPECT_EQ(TcpText(outside(), "198.51.100.50", 80), "");
  const json said = DiagnosisOf(to);
  EXPECT_THAT(said.at("cause").get<std::string>(),
              HasSubstr("chain FORWARD of table ip filter (policy drop)"));
  // For one address: a rule for the subnet would let other machines in.
  EXPECT_EQ(At(said, "/causes/0/fix"), "");
  const auto advice = At(said, "/causes/0/advice").get<std::string>();
  host().Shell(advice.substr(advice.find("iptables ")));
  EXPECT_EQ(TcpText(outside(), "198.51.100.50", 80), "hello");
}

// A network that leads to some networks alone, on purpose.
class ProbeSplitRoutes : public CliWorld {
 protected:
  void SetUp() override {
    host().Must(Words(Cat("ip route replace default via ", kOutsideIp4, " dev uplink")));
    host().Must(Words(Cat("ip -6 route replace default via ", kOutsideIp6, " dev uplink")));
  }
  void AttachWith(const json& routes) {
    const json config = DualStack({{"isDefaultGateway", false}, {"ipam", {{"routes", routes}}}});
    result_ = Attach(Publish({Port(8080, 80)}, config),
                     As(kAllocation, container(), NomadArgs("billing", kAllocation)));
    Serve(container(), Protocol::kTcp, {"::"}, 80, "hello");
  }
  void ExpectNoAdvice(const std::string& line) {
    EXPECT_THAT(RunLine(line),
                Exits(0, Out(AllOf(Not(HasSubstr("fix:")), Not(HasSubstr("advice:"))))));
  }

  const json kToOutside = {{{"dst", "198.51.100.0/24"}}, {{"dst", "2001:db8:100::/64"}}};
  const std::string kChecks = "doctor containers ports.blocked ports.probe";
  json result_;
};

TEST_F(ProbeSplitRoutes, NeedNoDefaultRoute) {
  AttachWith(kToOutside);
  ASSERT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
  ASSERT_EQ(TcpText(outside(), kHostIp6, 8080), "hello");
  ExpectNoAdvice(kChecks);
  ExpectNoAdvice("inspect 8080");
  ExpectNoAdvice(Cat("inspect 8080 -from ", kOutsideIp4));
  EXPECT_THAT(RunLine("inspect 8080").out,
              AllOf(HasSubstr("service"),
                    HasSubstr("Note         the network gives no default route for IPv4"),
                    HasSubstr("the network gives no default route for IPv6")));
}

TEST_F(ProbeSplitRoutes, AreNamedForATargetTheyDoNotCover) {
  AttachWith(kToOutside);
  for (const char* const words : {"billing -to 203.0.113.9:443",
                                  "billing -to [2001:db8:9::9]:443",
                                  "8080 -from 203.0.113.9"}) {
    EXPECT_THAT(RunLine(Cat("inspect ", words)),
                Exits(1,
                      Out(AllOf(HasSubstr("the network gives no default route, and no other route "
                                          "leads there"),
                                HasSubstr("add a route to the network's config"),
                                Not(HasSubstr("fix:"))))))
        << words;
  }
}

TEST_F(ProbeSplitRoutes, MayBeEmpty) {
  AttachWith(json::array());
  ExpectNoAdvice(kChecks);
  ExpectNoAdvice("inspect 8080");
}

// The record says what ADD gave.
TEST_F(ProbeSplitRoutes, DoNotExcuseALostDefaultRouteOfTheOtherFamily) {
  json routes = kToOutside;
  routes.push_back({{"dst", "::/0"}});
  AttachWith(routes);
  ExpectNoAdvice(kChecks);
  container().Must(Words("ip -6 route delete default"));
  EXPECT_THAT(RunLine("doctor containers"),
              Exits(1,
                    Out(AllOf(HasSubstr("no default route for IPv6"),
                              HasSubstr("ip -6 route add default via fd00:26::1"),
                              Not(HasSubstr("IPv4"))))));
}

// Ours has published the port by then: both translate it alike.
TEST_F(ProbeWays, PassWithTheReferencePortmapBehindUs) {
  Node& other = AddContainer("other");
  const json ours = {{"type", "nomad-bridge"}, {"capabilities", {{"portMappings", true}}}};
  const Network network{.list = ListOf({ours, PortmapEntry()}, "nomad"),
                        .path = MixedPath({"nomad-bridge"})};
  MustAdd(network, WithPorts("other", other, {Port(8083, 80)}));
  Serve(other, Protocol::kTcp, {"0.0.0.0"}, 80, "other");
  ASSERT_THAT(host().Must(Words("iptables-save -t nat")), HasSubstr("CNI-DN-"));
  ASSERT_EQ(TcpText(outside(), kHostIp4, 8083), "other");
  ASSERT_EQ(TcpText(host(), kHostIp4, 8083), "other");
  EXPECT_THAT(RunLine("doctor ports.blocked ports.probe"), Exits(0));
  EXPECT_EQ(StationsOf(DiagnosisOf("8083")), kRouted);
  EXPECT_EQ(WayFrom(kHostIp4, "8083"), "output nomad container service answer");
}

}  // namespace
}  // namespace nomad_bridge::test
