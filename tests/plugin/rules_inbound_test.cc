// The key `inbound`: what reaches an allocation from beyond the node.
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class Inbound : public World {
 protected:
  // The container with host port 8080 → 80, and a neighbour.
  void Add(const json& changes = {}) {
    Attach(Publish({Port(8080, 80)}, DualStack(changes)), As("web", container()));
    Attach(DualStack(changes), As("neighbour", neighbour_));
    Serve(container(), Protocol::kTcp, {"172.26.64.2", "fd00:26::2"}, 80, "web");
    Serve(container(), Protocol::kTcp, {"172.26.64.2", "fd00:26::2"}, 81, "not published");
  }

  // What `node` gets on a port of the container that is not published, by IPv4 and IPv6.
  [[nodiscard]] static std::vector<std::string> Directly(const Node& node) {
    std::vector<std::string> texts;
    for (const char* const address : {"172.26.64.2", "fd00:26::2"}) {
      texts.push_back(TcpText(node, address, 81));
    }
    return texts;
  }
  [[nodiscard]] static auto Reached() { return ElementsAre("not published", "not published"); }
  [[nodiscard]] static auto NotReached() { return ElementsAre("", ""); }

  Node& neighbour_ = AddContainer("neighbour");
};

TEST_F(Inbound, AllowsOnlyPublishedPortsByDefault) {
  Add();
  EXPECT_THAT(Directly(outside()), NotReached());
  EXPECT_TRUE(IsSilent(outside(), {.to = "172.26.64.2", .port = 80}))
      << "it is published, but by the node's addresses";
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "web");
  EXPECT_EQ(TcpText(outside(), kHostIp6, 8080), "web");
}

TEST_F(Inbound, LetsTheNodeAndNeighboursReachAnyPort) {
  Add();
  EXPECT_THAT(Directly(host()), Reached());
  EXPECT_THAT(Directly(neighbour_), Reached());
}

TEST_F(Inbound, LetsOurOtherBridgesReachAnyPort) {
  Add();
  Node& other = AddContainer("other");
  Attach(Config(R"({"name": "other", "bridge": "other0", "ipam": {"ranges": [
             [{"subnet": "10.97.0.0/24"}], [{"subnet": "fd00:97::/64"}]]}})"),
         As("other", other));
  EXPECT_THAT(Directly(other), Reached());
}

TEST_F(Inbound, LetsAnswersPass) {
  Add({{"ipMasq", false}});
  Serve(outside(), Protocol::kTcp, {kOutsideIp4, kOutsideIp6}, 9000, "outside");
  Serve(outside(), Protocol::kUdp, {kOutsideIp4, kOutsideIp6}, 9000, "outside");
  for (const char* const address : {kOutsideIp4, kOutsideIp6}) {
    EXPECT_EQ(TcpText(container(), address, 9000), "outside");
    EXPECT_EQ(UdpText(container(), address, 9000), "outside");
    EXPECT_TRUE(Ping(container(), address));
  }
}

TEST_F(Inbound, AllowsAnythingWithAny) {
  Add({{"inbound", "any"}});
  EXPECT_THAT(Directly(outside()), Reached());
  DropForwarded();
  EXPECT_THAT(Directly(outside()), NotReached()) << "nobody accepts it, nor do we";
}

TEST_F(Inbound, IsRemovedWithTheAllocation) {
  Add();
  Detach(DualStack(), As("web", container()));
  Detach(DualStack(), As("neighbour", neighbour_));
  EXPECT_EQ(Elements("closed4"), json::array());
  EXPECT_EQ(Elements("closed6"), json::array());
}

TEST_F(Inbound, AllowsAnythingUnderTheReferenceNames) {
  const json config = Config(R"({"bridge": "nomad", "isGateway": true, "isDefaultGateway": true,
      "ipam": {"type": "host-local",
               "ranges": [[{"subnet": "172.26.64.0/20"}], [{"subnet": "fd00:26::/64"}]]}})");
  const Outcome bridge = RunPlugin("ADD", config.dump(), {}, "bridge");
  ASSERT_EQ(bridge.exit_code, 0) << bridge;
  ASSERT_THAT(RunPlugin("ADD", WithResult(config, bridge.json).dump(), {}, "firewall"), Exits(0));
  Serve(container(), Protocol::kTcp, {"172.26.64.2", "fd00:26::2"}, 81, "not published");
  EXPECT_THAT(Directly(outside()), Reached());
}

}  // namespace
}  // namespace nomad_bridge::test
