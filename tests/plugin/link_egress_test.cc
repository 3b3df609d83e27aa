// Out of the allocation: to the gateway, to neighbours, and as the node to the outside.
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

constexpr std::uint16_t kPort = 7000;

class Egress : public World {};

TEST_F(Egress, IsTheNodeToTheOutside) {
  const Server ipv4 = Server::Start(outside(), Protocol::kTcp, "0.0.0.0", kPort, "four");
  const Server ipv6 = Server::Start(outside(), Protocol::kUdp, kOutsideIp6, kPort, "six");

  Attach(DualStack());

  EXPECT_EQ(Ask(container(), {.to = kOutsideIp4, .port = kPort}), (Reply{"four", kHostIp4}));
  EXPECT_EQ(Ask(container(), {.protocol = Protocol::kUdp, .to = kOutsideIp6, .port = kPort}),
            (Reply{"six", kHostIp6}));
}

TEST_F(Egress, IsItselfToTheOutsideWithoutIpMasq) {
  const Server server = Server::Start(outside(), Protocol::kTcp, "0.0.0.0", kPort, "four");

  Attach(Config(R"({"ipMasq": false})"));

  // The outside's default route leads back through the host.
  EXPECT_EQ(Ask(container(), {.to = kOutsideIp4, .port = kPort}), (Reply{"four", "172.26.64.2"}));
}

TEST_F(Egress, IsItselfToTheNodeAndToNeighbours) {
  Node& neighbour = AddContainer("neighbour");
  Attach(DualStack());
  Attach(DualStack(), As("neighbour", neighbour));
  const Server on_host = Server::Start(host(), Protocol::kTcp, "::", kPort, "host");
  const Server next_door = Server::Start(neighbour, Protocol::kTcp, "::", kPort, "neighbour");

  EXPECT_EQ(Ask(container(), {.to = "fd00:26::1", .port = kPort}), (Reply{"host", "fd00:26::2"}));
  EXPECT_EQ(Ask(container(), {.to = "fd00:26::3", .port = kPort}),
            (Reply{"neighbour", "fd00:26::2"}));
  EXPECT_EQ(Ask(container(), {.to = "172.26.64.3", .port = kPort}),
            (Reply{"neighbour", "::ffff:172.26.64.2"}));
}

TEST_F(Egress, FitsTheMtuOfTheNetwork) {
  Attach(Config(R"({"mtu": 1400})"));

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
