// Ours and the reference plugins in one list: each does its part on what the other has made.
#include "tests/support/refusal.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

struct Mix : Named {
  // Which of the plugins are ours; the others are the reference's.
  std::vector<std::string> ours;
  std::string version = "1.0.0";
  json interface_plugin = {{"type", "bridge"},
                           {"bridge", "br7"},
                           {"isGateway", true},
                           {"ipMasq", true}};
  const char* policy = "open";  // the firewall's ingressPolicy
};

class MixedWorld : public World {
 protected:
  static Network MixOf(const Mix& mix) {
    json interface = mix.interface_plugin;
    interface["ipam"] = {{"type", "host-local"},
                         {"ranges", {{{{"subnet", "10.7.0.0/24"}}}, {{{"subnet", "fd00:7::/64"}}}}},
                         {"routes", {{{"dst", "0.0.0.0/0"}}, {{"dst", "::/0"}}}}};
    const json firewall = {{"type", "firewall"}, {"ingressPolicy", mix.policy}};
    return {.list = ListOf({interface, firewall, PortmapEntry()}, "net", mix.version),
            .path = MixedPath(mix.ours)};
  }

  static Attached Container(const std::string& id, const Node& node, int port) {
    return WithPorts(id, node, {Port(port, 80)});
  }
  // What the first attachment on a node leaves behind by design is there.
  void UseOnce(const Network& network) {
    Node& early = AddContainer("early");
    MustDelFrom(network, MustAdd(network, Container("first", early, 7)));
    KillContainer(early);
  }
};

class MixedList : public MixedWorld, public ::testing::WithParamInterface<Mix> {};

TEST_P(MixedList, CarriesTrafficAndGoesWithoutATrace) {
  // The reference firewall does not let in what its portmap publishes.
  if (std::ranges::count(GetParam().ours, "firewall") > 0 &&
      std::ranges::count(GetParam().ours, "portmap") > 0) {
    DropForwarded();
  }
  const Network network = MixOf(GetParam());
  UseOnce(network);
  const Snapshot before = TakeSnapshot();

  const Attached attached = MustAdd(network, Container("c1", container(), 8080));

  const Server page = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "page");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
  EXPECT_EQ(TcpText(host(), "127.0.0.1", 8080), "page");
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
  EXPECT_TRUE(Ping(container(), kOutsideIp6));
  MustDelFrom(network, attached);
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

// Moved over to ours while it lives, by whichever plugins it was made.
TEST_P(MixedList, IsCheckedAndRemovedByOurPlugins) {
  Network network = MixOf(GetParam());
  if (network.list.at("plugins").at(0).at("type") != "bridge") {
    network.list["plugins"][0]["type"] = "bridge";
    network.list["plugins"][0].update({{"bridge", "br7"}, {"isGateway", true}});
  }
  const Network ours = ByOurs(network.list);
  UseOnce(network);
  const Snapshot before = TakeSnapshot();
  const Attached attached = MustAdd(network, Container("c1", container(), 8080));
  if (GetParam().version != "0.2.0") {
    MustCheckIn(ours, attached);
  }

  MustDelFrom(ours, attached);
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

class BehindTheirPtp : public MixedWorld {
 protected:
  // Our firewall and portmap behind the reference ptp.
  static Network Ptp(const char* policy = "open") {
    const json ptp = {{"type", "ptp"}, {"ipMasq", true}};
    return MixOf({"ptp", {"firewall", "portmap"}, "1.0.0", ptp, policy});
  }
};

TEST_F(BehindTheirPtp, IngressPolicyHoldsBetweenItsLinks) {
  const Network network = Ptp("same-bridge");
  MustAdd(network, Container("c1", container(), 8080));
  const Attached second = MustAdd(network, Container("c2", AddContainer("other"), 9090));
  EXPECT_FALSE(Ping(container(), AddressOf(second.result)));
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
  MustDelFrom(network, second);
  const std::string table = host().Must({"nft", "list", "table", "inet", "nomad-bridge"});
  EXPECT_THAT(table, Not(HasSubstr("id=c2")));
}

// The path of a namespace is a name, and may go before the container does.
TEST_F(BehindTheirPtp, AContainerIsLiveWhileItsLinkHasAPeer) {
  const Network network = Ptp();
  Node& living = AddContainer("living");
  MustAdd(network, Container("c1", living, 8080));
  std::optional<Process> inside;
  living.Do([&] {
    inside.emplace(Process::Start({.argv = {"sleep", "60"}, .input = "", .variables = {}}));
  });
  living.Kill();
  Attached second = Container("c2", container(), 8080);
  EXPECT_THAT(AddTo(network, second), Fails(102));
}

// Its link has not our name: nothing but its namespace shows that it lives.
TEST_F(BehindTheirPtp, AContainerKeepsItsPortsIfRecordsAreLost) {
  const Network network = Ptp();
  MustAdd(network, Container("c1", container(), 8080));
  Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 80, "c1");
  fs::remove_all("/run/nomad-bridge");

  MustAdd(network, Container("c2", AddContainer("other"), 9090));

  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "c1");
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
}

// What the ports of their bridge have in common stays, too, under a firewall that drops the rest.
TEST_F(MixedWorld, APortBehindTheirBridgeIsKeptIfRecordsAreLost) {
  DropForwarded();
  const json bridge = {
      {"type", "bridge"}, {"bridge", "theirs"}, {"isGateway", true}, {"ipMasq", true}};
  MustAdd(MixOf({"bridge", {"firewall", "portmap"}, "1.0.0", bridge, "open"}),
          Container("c1", container(), 8080));
  {
    const Server page = Server::Start(container(), Protocol::kTcp, "::", 80, "c1");
    const auto is_reached = [&](const std::string& host_ip) {
      return TcpText(outside(), host_ip, 8080) == "c1";
    };
    ASSERT_TRUE(is_reached(kHostIp4));
    ASSERT_TRUE(Soon([&] { return is_reached(kHostIp6); }));
    fs::remove_all("/run/nomad-bridge");

    Attach(DualStack(), As("ours", AddContainer("ours")));

    EXPECT_TRUE(is_reached(kHostIp4));
    EXPECT_TRUE(is_reached(kHostIp6));
    EXPECT_TRUE(Ping(container(), kOutsideIp4));
  }

  KillContainer(container());
  MustRun("GC", WithValid({}), kNoContainer);
  EXPECT_THAT(Elements("bridges").dump(), Not(HasSubstr("theirs")));
}

// Whether their bridge leads to a LAN is not asked of every container's port.
TEST_F(MixedWorld, OurCommandsCostTheSameBesideManyPortsOfTheirBridge) {
  const Network network = MixOf({"Bridge", {"firewall", "portmap"}});
  const Attached attached = MustAdd(network, Container("c1", container(), 8080));
  const auto requests = [&](std::size_t plugin) {
    const std::string log = "/run/requests";
    const Command again = EntryCommand("ADD", network, plugin, attached, attached.result);
    EXPECT_THAT(Execute(UnderStrace(again, log, {"-e", "trace=sendto"})), Exits(0));
    return Lines(FindFile(log, 64 << 20).value()).size();
  };
  const std::size_t of_firewall = requests(1);
  const std::size_t of_portmap = requests(2);
  const Node& other = AddContainer("other");
  for (int i = 0; i < 20; ++i) {
    host().Must(Words(Format("ip link add veth{} master br7 type veth peer name eth{} netns {}",
                             0x10000000 + i,
                             i,
                             other.name())));
  }
  EXPECT_EQ(requests(1), of_firewall);
  EXPECT_EQ(requests(2), of_portmap);
}

std::vector<Mix> Mixes() {
  const json ptp = {{"type", "ptp"}, {"ipMasq", true}};
  return {{"OurRulesBehindTheirBridge", {"firewall", "portmap"}},
          {"OurRulesAndLeasesBehindTheirBridge", {"host-local", "firewall", "portmap"}},
          {"OurLeasesOnly", {"host-local"}},
          {"TheirRulesBehindOurBridge", {"bridge"}},
          {"OurPortsOnly", {"portmap"}},
          {"OurFirewallOnly", {"firewall"}},
          {"OurRulesBehindTheirPtp", {"firewall", "portmap"}, "1.0.0", ptp},
          {"OurLeasesUnderTheirPtp", {"host-local"}, "1.0.0", ptp},
          // A result without interfaces: their location follows from the node's routes.
          {"OurRulesBehindTheirOldBridge", {"firewall", "portmap"}, "0.2.0"},
          {"OurRulesBehindTheirOldPtp", {"firewall", "portmap"}, "0.2.0", ptp}};
}

INSTANTIATE_TEST_SUITE_P(Mixes, MixedList, ::testing::ValuesIn(Mixes()), kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
