// The node as a router: what is turned on for allocations, and what the node itself has learnt from
// routers before.
#include "tests/plugin/cli_world.h"
#include "tests/support/router_advertisement.h"

namespace nomad_bridge::test {
namespace {

class NodeAsRouter : public CliWorld {
 protected:
  [[nodiscard]] bool HasAdvertisedRoute(const std::string& link) {
    return !host().Json(Words(Cat("ip -j -6 route show default proto ra dev ", link))).empty();
  }
  // Of `router` on its `ifname`, heard by the host on `link`.
  [[nodiscard]] bool Hears(const Node& router, const std::string& ifname, const std::string& link) {
    return Soon([&] { return AdvertiseRouter(router, ifname) && HasAdvertisedRoute(link); });
  }
  // The host's only default route for IPv6 is by router advertisement.
  void LiveOnAdvertisements() {
    host().SetSysctl("net/ipv6/conf/uplink/accept_ra", "1");
    host().Must(Words("ip -6 route delete default"));
    ASSERT_TRUE(
        Soon([&] { return Hears(outside(), "uplink", "uplink") && Ping(host(), kBeyond); }));
  }
  // A machine that is plugged into `bridge` and is not an allocation.
  void PlugIn(Node& machine, const std::string& bridge) {
    host().Must(Words(Cat("ip link add veth9 up master ",
                          bridge,
                          " type veth peer name eth9 netns ",
                          machine.name())));
    machine.SetSysctl("net/ipv6/conf/eth9/accept_dad", "0");
    machine.Must(Words("ip link set eth9 up"));
  }
  [[nodiscard]] std::string AcceptRa(const std::string& link) {
    return host().Sysctl(Cat("net/ipv6/conf/", link, "/accept_ra"));
  }

  // Behind the router outside.
  static constexpr const char* kBeyond = "2001:db8:bbbb::1";
  NodeAsRouter() {
    outside().SetSysctl("net/ipv6/conf/all/forwarding", "1");  // or its neighbours forget the route
    outside().Must(Words(Cat("ip address add ", kBeyond, "/128 dev lo")));
  }
};

TEST_F(NodeAsRouter, KeepsItsDefaultRouteByRouterAdvertisement) {
  LiveOnAdvertisements();

  Attach(DualStack());

  EXPECT_TRUE(HasAdvertisedRoute("uplink"));
  EXPECT_TRUE(Ping(host(), kBeyond));
  EXPECT_TRUE(Ping(container(), kBeyond));
}

TEST_F(NodeAsRouter, KeepsHearingItsDefaultRouter) {
  LiveOnAdvertisements();
  Attach(DualStack());
  host().Must(Words("ip -6 route flush default proto ra"));

  EXPECT_TRUE(Hears(outside(), "uplink", "uplink"));
}

TEST_F(NodeAsRouter, HearsARouterThatComesAfterItBeganToForward) {
  host().SetSysctl("net/ipv6/conf/uplink/accept_ra", "1");
  host().Must(Words("ip -6 route delete default"));

  Attach(DualStack());

  EXPECT_TRUE(Hears(outside(), "uplink", "uplink"));
}

// As at boot, before the network's routers have been heard.
TEST_F(NodeAsRouter, HearsARouterThatComesAfterUp) {
  host().SetSysctl("net/ipv6/conf/uplink/accept_ra", "1");
  host().Must(Words("ip -6 route delete default"));
  std::ofstream("/run/nomad.conflist")
      << json{{"cniVersion", "1.0.0"}, {"name", "nomad"}, {"plugins", {DualStack()}}};

  EXPECT_THAT(RunLine("up /run/nomad.conflist"), Exits(0));

  EXPECT_EQ(host().Sysctl("net/ipv6/conf/all/forwarding"), "1");
  EXPECT_TRUE(Hears(outside(), "uplink", "uplink"));
}

TEST_F(NodeAsRouter, LeavesInterfacesThatUseNoRouterAlone) {
  host().Must(Words("ip link add others up type bridge"));
  host().SetSysctl("net/ipv6/conf/others/accept_ra", "1");
  host().SetSysctl("net/ipv6/conf/uplink/accept_ra", "0");

  Attach(DualStack());

  EXPECT_EQ(AcceptRa("others"), "1");
  EXPECT_EQ(AcceptRa("uplink"), "0");
}

// ---- a node with two cards, which routes between them from then on

TEST_F(NodeAsRouter, WarnsOnceThatItRoutesBetweenItsInterfaces) {
  host().Must(Words("ip link add second type veth peer name eth1 netns outside"));
  host().Must(Words("ip address add 203.0.113.1/24 dev second"));
  host().Must(Words("ip link set second up"));

  EXPECT_THAT(MustRun("ADD", Config()), Err(HasSubstr("'second' and 'uplink'")));
  Detach(Config());
  EXPECT_THAT(MustRun("ADD", Config()), Err(Not(HasSubstr("routes between"))));
}

// Its uplink may just be unplugged.
TEST_F(NodeAsRouter, HearsRoutersOnAnAdoptedBridgeAsBefore) {
  host().Must(Words("ip link add nomad up type bridge"));
  host().SetSysctl("net/ipv6/conf/nomad/accept_ra", "2");
  Node& router = AddContainer("router");
  PlugIn(router, "nomad");
  ASSERT_TRUE(Hears(router, "eth9", "nomad"));

  Attach(Config());

  EXPECT_EQ(AcceptRa("nomad"), "2");
  EXPECT_TRUE(HasAdvertisedRoute("nomad"));
}

TEST_F(NodeAsRouter, HearsNoRouterOnOurBridgeAfterARepair) {
  const json result = Attach(Config());
  Node& rogue = AddContainer("rogue");
  PlugIn(rogue, "nomad");
  host().SetSysctl("net/ipv6/conf/nomad/accept_ra", "1");
  ASSERT_TRUE(Hears(rogue, "eth9", "nomad"));

  EXPECT_THAT(MustCheck(Config(), result).err, HasSubstr("accept_ra"));

  EXPECT_EQ(AcceptRa("nomad"), "0");
  EXPECT_FALSE(HasAdvertisedRoute("nomad"));
}

TEST_F(NodeAsRouter, HearsTheRouterOfItsOwnLan) {
  host().Must(Words("ip link add lan up type bridge"));
  host().Must(Words("ip link set uplink master lan"));
  ASSERT_TRUE(Hears(outside(), "uplink", "lan"));

  Attach(Config({{"bridge", "lan"}, {"isGateway", false}}));

  EXPECT_EQ(AcceptRa("lan"), "1");
  EXPECT_TRUE(HasAdvertisedRoute("lan"));
}

// ---- conf.default.forwarding=0, as an administrator sets it who wants no other router

TEST_F(NodeAsRouter, ForwardsFromABridgeThatIsMadeWithForwardingOffByDefault) {
  const json result = Attach(Config());
  host().SetSysctl("net/ipv4/conf/default/forwarding", "0");
  host().Must(Words("ip link delete nomad"));

  EXPECT_THAT(MustCheck(Config(), result), Err(HasSubstr("net/ipv4/conf/default/forwarding is 0")));

  EXPECT_EQ(host().Sysctl("net/ipv4/conf/nomad/forwarding"), "1");
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
}

TEST_F(NodeAsRouter, ForwardsFromTheFirstBridgeWithForwardingOffByDefault) {
  host().SetSysctl("net/ipv4/ip_forward", "1");
  host().SetSysctl("net/ipv4/conf/default/forwarding", "0");

  EXPECT_THAT(MustRun("ADD", Config()), Err(HasSubstr("net/ipv4/conf/default/forwarding is 0")));

  EXPECT_TRUE(Ping(container(), kOutsideIp4));
}

}  // namespace
}  // namespace nomad_bridge::test
