// Out of the allocation: to the gateway, to neighbours, and as the node to the outside.
#include "tests/plugin/link_world.h"

namespace nomad_bridge::test {
namespace {

constexpr std::uint16_t kPort = 7000;

class EgressTest : public LinkWorld {
 protected:
  static Reply As(const std::string& text, const std::string& address) {
    return {.text = text, .seen_as = address};
  }
  using World::As;
};

TEST_F(EgressTest, IsTheNodeToTheOutside) {
  const Server ipv4 = Server::Start(outside(), Protocol::kTcp, "0.0.0.0", kPort, "four");
  const Server ipv6 = Server::Start(outside(), Protocol::kUdp, kOutsideIp6, kPort, "six");

  MustAdd(Network(kDualStack));

  EXPECT_EQ(Ask(container(), {.to = kOutsideIp4, .port = kPort}), As("four", kHostIp4));
  EXPECT_EQ(Ask(container(), {.protocol = Protocol::kUdp, .to = kOutsideIp6, .port = kPort}),
            As("six", kHostIp6));
}

TEST_F(EgressTest, IsItselfToTheOutsideWithoutIpMasq) {
  const Server server = Server::Start(outside(), Protocol::kTcp, "0.0.0.0", kPort, "four");

  MustAdd(Network(R"({"ipMasq": false})"));

  // The outside's default route leads back through the host.
  EXPECT_EQ(Ask(container(), {.to = kOutsideIp4, .port = kPort}), As("four", "172.26.64.2"));
}

TEST_F(EgressTest, IsItselfToTheNodeAndToNeighbours) {
  Node& neighbour = AddContainer("neighbour");
  MustAdd(Network(kDualStack));
  MustAdd(Network(kDualStack), As("neighbour", neighbour));
  const Server on_host = Server::Start(host(), Protocol::kTcp, "::", kPort, "host");
  const Server next_door = Server::Start(neighbour, Protocol::kTcp, "::", kPort, "neighbour");

  EXPECT_EQ(Ask(container(), {.to = "fd00:26::1", .port = kPort}), As("host", "fd00:26::2"));
  EXPECT_EQ(Ask(container(), {.to = "fd00:26::3", .port = kPort}), As("neighbour", "fd00:26::2"));
  EXPECT_EQ(Ask(container(), {.to = "172.26.64.3", .port = kPort}),
            As("neighbour", "::ffff:172.26.64.2"));
}

TEST_F(EgressTest, FitsTheMtuOfTheNetwork) {
  MustAdd(Network(R"({"mtu": 1400})"));

  const auto ping = [&](int bytes) {
    return container()
        .Run({"ping", "-n", "-c1", "-W3", "-Mdo", "-s", Cat(bytes), kOutsideIp4})
        .exit_code;
  };
  constexpr int kHeaders = 28;
  EXPECT_EQ(ping(1400 - kHeaders), 0);
  EXPECT_NE(ping(1401 - kHeaders), 0);
}

}  // namespace
}  // namespace nomad_bridge::test
