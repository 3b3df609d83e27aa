// What a site wants otherwise of its network, and several networks on one node.
#include <regex>

#include "tests/plugin/recipes_world.h"
#include "tests/support/fixture.h"

namespace nomad_bridge::test {
namespace {

// ---- addresses, name servers and packet sizes

class NetworkRecipe : public Recipe {};

TEST_F(NetworkRecipe, StaticAddressIsTheRequestedOne) {
  const Network network = Run("static");
  Node& other = AddContainer("other");

  const Attached web = MustAdd(network, Allocation("web", container(), {}, "IP=172.26.176.10;"));

  EXPECT_EQ(AddressOf(web.result), "172.26.176.10");
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
  Attached second = Allocation("second", other, {}, "IP=172.26.176.10;");
  EXPECT_THAT(AddTo(network, second),
              Exits(Ne(0), MsgAndDetails(AllOf(HasSubstr("172.26.176.10"), HasSubstr("web")))));
}

TEST_F(NetworkRecipe, StaticAddressIsRefusedIfJobsMayNotRequestIt) {
  Network network = Run("static");
  network.list["plugins"][0]["requests"] = "refuse";
  Attached web = Allocation("web", container(), {}, "IP=172.26.176.10;");

  EXPECT_NE(AddTo(network, web).exit_code, 0);
}

TEST_F(NetworkRecipe, Ipv6OnlyWorksInBothDirections) {
  const Attached web = MustAdd(Run("ipv6-only"), Allocation("web", container(), {Port(8080, 80)}));

  EXPECT_THAT(AddressesOn(container(), "eth0"), ElementsAre("fd00:26:6::2/64"));
  EXPECT_THAT(RoutesTo(container(), "0.0.0.0/0"), IsEmpty());
  Serve(container(), Protocol::kTcp, {"::"}, 80, "web");
  EXPECT_EQ(TcpText(outside(), kHostIp6, 8080), "web");
  EXPECT_TRUE(Ping(container(), kOutsideIp6));
}

TEST_F(NetworkRecipe, LanBridgeGivesAddressesOfTheLan) {
  for (const std::string line : {"link add br0 type bridge",
                                 "link set br0 up",
                                 "address flush dev uplink scope global",
                                 "link set uplink master br0",
                                 "address add 198.51.100.1/24 dev br0"}) {
    host().Must(Words(Cat("ip ", line)));
  }
  host().Must(Words("sysctl -qw net.ipv4.ip_forward=1"));
  OpenFirewall("br0");

  MustAdd(Run("lan"), Allocation("web", container(), {Port(8080, 80)}));

  EXPECT_THAT(AddressesOn(container(), "eth0"), ElementsAre("198.51.100.128/24"));
  Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 80, "web");
  EXPECT_EQ(TcpText(outside(), "198.51.100.128", 80), "web");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "web");
  Serve(outside(), Protocol::kTcp, {kOutsideIp4}, 9000, "lan");
  const std::optional<Reply> reply = Ask(container(), {.to = kOutsideIp4, .port = 9000});
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->seen_as, "198.51.100.128");
}

TEST_F(NetworkRecipe, DnsComesFromTheResolverBehindTheStub) {
  const Attached web = MustAdd(Run("dns"), Allocation("web", container()));

  EXPECT_EQ(At(web.result, "/dns/nameservers"), json({"192.0.2.53"}));
  EXPECT_EQ(At(web.result, "/dns/search"), json({"example"}));
}

TEST_F(NetworkRecipe, UplinkMtuPassesTheLargestPacketOfTheUplink) {
  host().Must(Words("ip link set uplink mtu 1400"));

  MustAdd(Run("uplink-mtu"), Allocation("web", container()));

  const auto ping = [&](int payload) {
    return container().Run(Words(Cat("ping -c 1 -W 3 -M do -s ", payload, " ", kOutsideIp4)));
  };
  EXPECT_EQ(ping(1372).exit_code, 0) << "28 bytes of headers";
  const Outcome larger = ping(1373);
  EXPECT_NE(larger.exit_code, 0);
  EXPECT_THAT(larger.err + larger.out, HasSubstr("essage too long"))
      << "said at once, by its own interface";
}

// ---- several networks: apart from each other, beside each other, and in one allocation

constexpr std::uint16_t kPort = 9000;

class SeveralNetworks : public Recipe {
 protected:
  // An allocation of `network` with a server on kPort.
  std::string AddServer(const std::string& network,
                        const Node& node,
                        const std::vector<json>& ports = {}) {
    const Attached attached = MustAdd(Run(network), Allocation(node.name(), node, ports));
    Serve(node, Protocol::kTcp, {"0.0.0.0"}, kPort, node.name());
    return AddressOf(attached.result);
  }

  Node& dev_ = AddContainer("dev");
};

TEST_F(SeveralNetworks, AreSeparateForNomadNamespaces) {
  Node& neighbour = AddContainer("neighbour");
  const std::string prod = AddServer("prod", container(), {Port(8080, kPort)});
  const std::string dev = AddServer("dev", dev_);
  MustAdd(Run("prod"), Allocation("neighbour", neighbour));

  EXPECT_EQ(TcpText(neighbour, prod, kPort), container().name()) << "within a network";
  EXPECT_TRUE(IsSilent(dev_, {.to = prod, .port = kPort}));
  EXPECT_TRUE(IsSilent(neighbour, {.to = dev, .port = kPort}));
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), container().name()) << "published to the world";
  EXPECT_TRUE(Ping(dev_, kOutsideIp4));
}

TEST_F(SeveralNetworks, ReachEachOtherUnlessAPolicySaysOtherwise) {
  const std::string one = AddServer("nomad", container());
  const std::string other = AddServer("dual-stack", dev_);

  EXPECT_EQ(TcpText(dev_, one, kPort), container().name());
  EXPECT_EQ(TcpText(container(), other, kPort), dev_.name());
}

// What jobs/second.nomad.hcl does before its tasks start.
TEST_F(SeveralNetworks, GiveOneAllocationTwoInterfaces) {
  const std::string far = AddServer("second", dev_);
  Attached first = MustAdd(Run("nomad"), Allocation("web", container(), {Port(8080, kPort)}));
  Attached second = Allocation("web", container());
  second.ifname = "eth1";

  second = MustAdd(Run("second"), second);

  EXPECT_EQ(AddressesOn(container(), "eth1"), AddressesIn(second.result));
  EXPECT_EQ(RoutesTo(container(), "default").size(), 1U) << "by the first";
  EXPECT_EQ(At(RoutesTo(container(), "default"), "/0/dev"), "eth0");
  EXPECT_EQ(TcpText(container(), far, kPort), dev_.name());
  Serve(container(), Protocol::kTcp, {"0.0.0.0"}, kPort, "web");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "web");
  MustCheckIn(Run("nomad"), first);
  MustCheckIn(Run("second"), second);
  MustDelFrom(Run("second"), second);
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "web") << "the first stays";
  MustDelFrom(Run("nomad"), first);
}

// docs/troubleshooting.md: a port that is published in the network without the default route.
TEST_F(SeveralNetworks, SbrMakesPublishedPortsOfTheSecondAnswer) {
  MustAdd(Run("nomad"), Allocation("web", container()));
  Network network = Run("dev");
  network.list["plugins"].push_back({{"type", "sbr"}});
  Attached second = Allocation("web", container(), {Port(8080, kPort)});
  second.ifname = "eth1";

  second = MustAdd(network, second);

  Serve(container(), Protocol::kTcp, {"0.0.0.0"}, kPort, "web");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "web");
  EXPECT_TRUE(Ping(container(), kOutsideIp4)) << "by the first";
  MustCheckIn(network, second);
  MustDelFrom(network, second);
}

// docs/recipes.md: containerd has a network of its own.
TEST_F(SeveralNetworks, ContainerdsGcLeavesNomadsAllocations) {
  const Attached web = MustAdd(Run("nomad"), Allocation("web", container()));
  Network network = Run("containerd");
  MustAdd(network, Allocation("pod", dev_));
  network.list["cniVersion"] = "1.1.0";
  network.list["plugins"][0]["cni.dev/valid-attachments"] = json::array();

  MustRunEntry("GC", network, 0, {}, nullptr);

  EXPECT_FALSE(HasInterface(dev_, "eth0"));
  MustCheckIn(Run("nomad"), web);
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
}

// docs/troubleshooting.md, with a repair in the middle.
TEST_F(SeveralNetworks, ATraceOutlivesARepair) {
  const Attached web = MustAdd(Run("nomad"), Allocation("web", container()));
  const std::string text = FindFile(ProjectPath("docs/troubleshooting.md")).value();
  std::smatch recipe;
  ASSERT_TRUE(std::regex_search(
      text,
      recipe,
      std::regex("\n(nft add [^]*?)\ntimeout 30 (nft monitor trace); (nft delete .*)\n")));
  const std::string veth = HostVethOf(web.result);

  host().Shell(std::regex_replace(recipe[1].str(), std::regex("veth[X]+"), veth));
  EXPECT_THAT(Execute(Command{.argv = {BinaryUnderTest(), "reconcile"},
                              .variables = {{"CNI_COMMAND", std::nullopt}}}),
              Exits(0));

  host().Shell(Cat("timeout 20 ", recipe[2].str(), " > /run/trace 2>&1 &"));
  EXPECT_TRUE(Soon([&] {
    return Ping(container(), kBridgeIp4) &&
           FindFile("/run/trace").value_or("").find(veth) != std::string::npos;
  }));
  host().Shell(recipe[3].str());
  EXPECT_THAT(host().Must({"nft", "list", "tables"}), Not(HasSubstr("trace")));
}

// What node_exporter's --collector.netdev.label-ifalias shows: alias and counters of the host veth.
TEST_F(SeveralNetworks, CountTrafficByJob) {
  const Attached web = MustAdd(Run("nomad"), Allocation("web", container()));
  const auto statistics = [&] {
    return host().Json({"ip", "-j", "-s", "link", "show", HostVethOf(web.result)}).at(0);
  };
  const std::uint64_t before = At(statistics(), "/stats64/rx/bytes").get<std::uint64_t>();

  EXPECT_TRUE(Ping(container(), kOutsideIp4));

  EXPECT_GT(At(statistics(), "/stats64/rx/bytes").get<std::uint64_t>(), before);
  EXPECT_THAT(statistics().at("ifalias").get<std::string>(),
              AllOf(HasSubstr("job=web"), HasSubstr("group=api")));
}

}  // namespace
}  // namespace nomad_bridge::test
