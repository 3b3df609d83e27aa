// The key `sourceCheck` on a node with two networks, each on a bridge of its own or both on one,
// and in a container that is in both.
#include "tests/support/frames.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

constexpr std::uint16_t kPort = 9000;

// Alloc "one" of network "nomad" with host port 8080, and "two" of network "other" with 9090.
class CheckedNetworks : public World {
 protected:
  CheckedNetworks() {
    // The kernel's own filter would hide what ours does.
    for (const std::string link : {"all", "default"}) {
      host().SetSysctl(Cat("net/ipv4/conf/", link, "/rp_filter"), "0");
    }
  }

  void Add(const json& other) {
    one_ = Attach(config_, As("one", container()));
    other_config_ = Publish({Port(9090, kPort)}, other);
    two_ = Attach(other_config_, As("two", second_));
    Serve(container(), Protocol::kTcp, {"::"}, kPort, "one");
    Serve(second_, Protocol::kTcp, {"::"}, kPort, "two");
  }

  static json OnABridgeOfItsOwn(const json& changes = json::object()) {
    json config = Config(R"({"name": "other", "bridge": "other0", "ipam": {"ranges": [
        [{"subnet": "10.97.0.0/24"}], [{"subnet": "fd00:97::/64"}]]}})");
    config.merge_patch(changes);
    return config;
  }
  static json OnTheSameBridge() { return DualStack({{"name", "other"}}); }

  // From each to the other, by its addresses and by its port; to outside; and from there by the
  // ports.
  void ExpectTraffic() {
    for (const int family : {4, 6}) {
      SCOPED_TRACE(family);
      const std::string node = family == 4 ? kHostIp4 : kHostIp6;
      const std::string beyond = family == 4 ? kOutsideIp4 : kOutsideIp6;
      EXPECT_EQ(TcpText(container(), AddressOf(two_, family), kPort), "two");
      EXPECT_EQ(TcpText(second_, AddressOf(one_, family), kPort), "one");
      EXPECT_EQ(TcpText(container(), node, 9090), "two");
      EXPECT_EQ(TcpText(second_, node, 8080), "one");
      EXPECT_EQ(TcpText(outside(), node, 8080), "one");
      EXPECT_EQ(TcpText(outside(), node, 9090), "two");
      EXPECT_EQ(TcpText(host(), AddressOf(two_, family), kPort), "two");
      EXPECT_TRUE(Ping(container(), beyond));
      EXPECT_TRUE(Ping(second_, beyond));
    }
  }

  // The node does not hear what `node`, of ADD's result `own`, sends in the name of `another`.
  void ExpectDeaf(const Node& node, const json& own, const json& another) {
    Server server4 = Server::Start(host(), Protocol::kUdp, "0.0.0.0", kPort, "heard");
    Server server6 = Server::Start(host(), Protocol::kUdp, "::", kPort, "heard");
    const Mac bridge = MacOf(host(), At(own, "/interfaces/0/name"));
    const Mac others = Mac::Parse(At(another, "/interfaces/2/mac").get<std::string>()).value();
    for (const int family : {4, 6}) {
      const std::string gateway = At(own, family == 4 ? "/ips/0/gateway" : "/ips/1/gateway");
      for (const Mac& from : {MacOf(node, "eth0"), others}) {
        SendFrame(node,
                  "eth0",
                  UdpFrame({.to = bridge, .from = from},
                           {.from = AddressOf(another, family), .to = gateway}));
      }
      // Behind them on the same way.
      EXPECT_EQ(UdpText(node, gateway, kPort), "heard");
      EXPECT_THAT((family == 4 ? server4 : server6).Heard(), ElementsAre(AddressOf(own, family)));
    }
  }

  Node& second_ = AddContainer("second");
  json config_ = Publish({Port(8080, kPort)}, DualStack());
  json other_config_;
  json one_;
  json two_;
};

TEST_F(CheckedNetworks, ReachEachOtherAndOutsideOnTwoBridges) {
  Add(OnABridgeOfItsOwn());
  ExpectTraffic();
}

TEST_F(CheckedNetworks, ReachEachOtherAndOutsideOnOneBridge) {
  Add(OnTheSameBridge());
  ExpectTraffic();
}

// Each adds its gateway to the bridge.
TEST_F(CheckedNetworks, ReachEachOtherAndOutsideOnOneBridgeWithTwoSubnets) {
  Add(OnABridgeOfItsOwn({{"bridge", "nomad"}, {"forceAddress", false}}));
  ExpectTraffic();
}

// The kernel's redirects make one direction pass between the ports, unseen by conntrack then.
TEST_F(CheckedNetworks, ReachEachOtherInTwoSubnetsWithoutBrNetfilter) {
  SetBridgeNf("0");
  Add(OnABridgeOfItsOwn({{"bridge", "nomad"}, {"forceAddress", false}}));
  ExpectTraffic();
}

TEST_F(CheckedNetworks, DropForgedSourcesOfEachOther) {
  Add(OnABridgeOfItsOwn());
  ExpectDeaf(container(), one_, two_);
  ExpectDeaf(second_, two_, one_);
}

TEST_F(CheckedNetworks, DropForgedSourcesOfEachOtherOnOneBridge) {
  Add(OnTheSameBridge());
  ExpectDeaf(container(), one_, two_);
  ExpectDeaf(second_, two_, one_);
}

TEST_F(CheckedNetworks, WorkAfterTheOtherIsRepairedOrRemoved) {
  Add(OnTheSameBridge());
  host().Must({"nft", "flush", "ruleset"});
  MustCheck(config_, one_, As("one", container()));
  EXPECT_EQ(MustCheck(other_config_, two_, As("two", second_)).err, "");
  ExpectTraffic();

  MustRun("GC", WithValid({}, config_));
  EXPECT_FALSE(HasInterface(container(), "eth0"));
  EXPECT_TRUE(Ping(second_, kOutsideIp4));
  ExpectDeaf(second_, two_, one_);
}

// A container in both, with its default route by the first.
class CheckedTwice : public CheckedNetworks {
 protected:
  void AddBoth(const json& changes = json::object()) {
    one_ = Attach(config_, As("both", container()));
    json other = OnABridgeOfItsOwn({{"isDefaultGateway", false}});
    other.merge_patch(changes);
    Variables eth1 = As("both", container());
    eth1["CNI_IFNAME"] = "eth1";
    two_ = Attach(Publish({Port(9090, kPort)}, other), eth1);
    Serve(container(), Protocol::kTcp, {"::"}, kPort, "both");
  }
};

TEST_F(CheckedTwice, IsReachedInEachNetworkAndByThePortsOfTheFirst) {
  AddBoth();
  Attach(OnABridgeOfItsOwn(), As("neighbour", second_));
  EXPECT_EQ(TcpText(second_, AddressOf(two_), kPort), "both");
  EXPECT_EQ(TcpText(second_, AddressOf(two_, 6), kPort), "both");
  EXPECT_EQ(TcpText(host(), AddressOf(two_), kPort), "both");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "both");
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
}

// The answer leaves by the default route, from the address in the other network.
// docs/troubleshooting.md
TEST_F(CheckedTwice, AnswersThePortsOfTheSecondOnlyByARouteOfTheirOwn) {
  AddBoth();
  EXPECT_TRUE(IsSilent(outside(), {.to = kHostIp4, .port = 9090}));

  container().Must(Words(Cat("ip rule add from ", AddressOf(two_), " lookup 100")));
  container().Must(Words("ip route add default via 10.97.0.1 table 100"));
  EXPECT_EQ(TcpText(outside(), kHostIp4, 9090), "both");
}

TEST_F(CheckedTwice, AnswersThePortsOfTheSecondWithoutTheCheckInTheFirst) {
  config_ = Publish({Port(8080, kPort)}, DualStack({{"sourceCheck", false}}));
  AddBoth();
  EXPECT_EQ(TcpText(outside(), kHostIp4, 9090), "both");
}

}  // namespace
}  // namespace nomad_bridge::test
