// Published ports, with real traffic from everywhere a caller may be, over the ground an operator
// may have laid.

#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

enum class Forward {
  kAccepts,     // FORWARD as it is on a bare machine
  kDrops,       // its policy is DROP, as Docker leaves it
  kDropsBehind  // a DROP rule stands behind the jump to CNI-FORWARD
};

struct Ground {
  Forward forward;
  bool br_netfilter;  // bridged packets pass iptables and nf_tables too
};

std::ostream& operator<<(std::ostream& stream, const Ground& ground) {
  return stream << "forward " << static_cast<int>(ground.forward) << ", br_netfilter "
                << ground.br_netfilter;
}

std::string NameOf(const ::testing::TestParamInfo<Ground>& info) {
  const Forward forward = info.param.forward;
  return Cat(forward == Forward::kAccepts ? "Accept"
             : forward == Forward::kDrops ? "PolicyDrop"
                                          : "DropBehind",
             info.param.br_netfilter ? "WithBrNetfilter" : "WithoutBrNetfilter");
}

class PublishedPort : public World, public ::testing::WithParamInterface<Ground> {
 protected:
  PublishedPort() : neighbour_(AddContainer("neighbour")) {
    SetBridgeNf(GetParam().br_netfilter ? "1" : "0");
    for (const std::string& program : {std::string("iptables"), std::string("ip6tables")}) {
      if (GetParam().forward == Forward::kDrops) {
        host().Must({program, "-P", "FORWARD", "DROP"});
      }
    }
  }

  // The first container, with host port 8080 → 80, and a neighbour; both protocols' servers stand
  // in the container.
  void Add(const std::string& protocol = "tcp", const std::string& host_ip = "") {
    Attach(Publish({Port(8080, 80, protocol, host_ip)}, DualStack()), As("web", container()));
    Attach(DualStack(), As("neighbour", neighbour_));
    for (const std::string& program : {std::string("iptables"), std::string("ip6tables")}) {
      if (GetParam().forward == Forward::kDropsBehind) {
        host().Must({program, "-A", "FORWARD", "-j", "DROP"});
      }
    }
    const Protocol spoken = protocol == "udp" ? Protocol::kUdp : Protocol::kTcp;
    Serve(container(), spoken, {"172.26.64.2", "fd00:26::2"}, 80, "web");
    protocol_ = spoken;
  }

  // What comes back from `to`, port 8080.
  [[nodiscard]] std::optional<Reply> From(const Node& node, const std::string& to) const {
    return Ask(node, {.protocol = protocol_, .to = to, .port = 8080});
  }

  Node& neighbour_;
  Protocol protocol_ = Protocol::kTcp;
};

class PublishedTcpPort : public PublishedPort {
 protected:
  PublishedTcpPort() { Add("tcp"); }
};

class PublishedUdpPort : public PublishedPort {
 protected:
  PublishedUdpPort() { Add("udp"); }
};

TEST_P(PublishedTcpPort, AnswersTheOutsideAndSeesItsAddress) {
  EXPECT_EQ(From(outside(), kHostIp4), (Reply{"web", kOutsideIp4}));
  EXPECT_EQ(From(outside(), kHostIp6), (Reply{"web", kOutsideIp6}));
}

TEST_P(PublishedTcpPort, AnswersTheHostOnEachOfItsAddressesAndSeesThatAddress) {
  for (const std::string address : {kHostIp4, kHostIp6, kBridgeIp4, kBridgeIp6}) {
    EXPECT_EQ(From(host(), address), (Reply{"web", address}));
  }
}

TEST_P(PublishedTcpPort, AnswersTheHostOnLocalhostAndSeesTheBridge) {
  EXPECT_EQ(From(host(), "127.0.0.1"), (Reply{"web", kBridgeIp4}));
}

// The kernel routes nothing to ::1 that comes in by another link than lo, so the allocation's
// answer could not come back.
TEST_P(PublishedTcpPort, IsRefusedAtOnceOnIpv6LocalhostSoThatClientsGoOnToIpv4) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(From(host(), "::1"), std::nullopt);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500));
  Serve(host(), Protocol::kTcp, {"::1"}, 8080, "host");
  EXPECT_EQ(From(host(), "::1"), (Reply{"host", "::1"})) << "which has the port to itself";
}

TEST_P(PublishedTcpPort, AnswersItsOwnAllocationAndANeighbourAndSeesTheBridge) {
  for (const Node* node : {&container(), &neighbour_}) {
    for (const std::string address : {kHostIp4, kBridgeIp4}) {
      EXPECT_EQ(From(*node, address), (Reply{"web", kBridgeIp4})) << node->name() << address;
    }
    for (const std::string address : {kHostIp6, kBridgeIp6}) {
      EXPECT_EQ(From(*node, address), (Reply{"web", kBridgeIp6})) << node->name() << address;
    }
  }
}

TEST_P(PublishedTcpPort, LeavesTheNeighboursOwnAddressesAlone) {
  EXPECT_EQ(Ask(neighbour_, {.to = "172.26.64.2", .port = 80}), (Reply{"web", "172.26.64.3"}));
  EXPECT_EQ(Ask(neighbour_, {.to = "fd00:26::2", .port = 80}), (Reply{"web", "fd00:26::3"}));
}

TEST_P(PublishedTcpPort, LetsItsAllocationOutUnderTheNodesAddress) {
  Serve(outside(), Protocol::kTcp, {kOutsideIp4, kOutsideIp6}, 9000, "outside");
  EXPECT_EQ(Ask(container(), {.to = kOutsideIp4, .port = 9000}), (Reply{"outside", kHostIp4}));
  EXPECT_EQ(Ask(container(), {.to = kOutsideIp6, .port = 9000}), (Reply{"outside", kHostIp6}));
}

TEST_P(PublishedTcpPort, IsNotPublishedForUdp) {
  Serve(container(), Protocol::kUdp, {"172.26.64.2"}, 80, "web");
  EXPECT_TRUE(IsSilent(outside(), {.protocol = Protocol::kUdp, .to = kHostIp4, .port = 8080}));
}

TEST_P(PublishedUdpPort, AnswersEverybody) {
  EXPECT_EQ(From(outside(), kHostIp4), (Reply{"web", kOutsideIp4}));
  EXPECT_EQ(From(outside(), kHostIp6), (Reply{"web", kOutsideIp6}));
  EXPECT_EQ(From(host(), kHostIp4), (Reply{"web", kHostIp4}));
  EXPECT_EQ(From(host(), kHostIp6), (Reply{"web", kHostIp6}));
  EXPECT_EQ(From(host(), "127.0.0.1"), (Reply{"web", kBridgeIp4}));
  for (const Node* node : {&container(), &neighbour_}) {
    EXPECT_EQ(From(*node, kHostIp4), (Reply{"web", kBridgeIp4})) << node->name();
    EXPECT_EQ(From(*node, kHostIp6), (Reply{"web", kBridgeIp6})) << node->name();
  }
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "") << "only UDP was published";
}

TEST_P(PublishedPort, AnswersOnItsHostAddressFromEverywhere) {
  Add("tcp", kHostIp4);
  EXPECT_EQ(From(outside(), kHostIp4), (Reply{"web", kOutsideIp4}));
  EXPECT_EQ(From(host(), kHostIp4), (Reply{"web", kHostIp4}));
  EXPECT_EQ(From(neighbour_, kHostIp4), (Reply{"web", kBridgeIp4}));
  EXPECT_EQ(From(container(), kHostIp4), (Reply{"web", kBridgeIp4}));
}

TEST_P(PublishedPort, DoesNotAnswerOnOtherHostAddresses) {
  Add("tcp", kHostIp4);
  for (const std::string address : {"127.0.0.1", "::1", kBridgeIp4, kBridgeIp6, kHostIp6}) {
    EXPECT_TRUE(IsSilent(host(), {.to = address, .port = 8080})) << address;
  }
  EXPECT_TRUE(IsSilent(outside(), {.to = kHostIp6, .port = 8080}));
  EXPECT_TRUE(IsSilent(neighbour_, {.to = kBridgeIp4, .port = 8080}));
}

TEST_P(PublishedPort, AnswersOnItsIpv6HostAddress) {
  Add("udp", kHostIp6);
  EXPECT_EQ(From(outside(), kHostIp6), (Reply{"web", kOutsideIp6}));
  EXPECT_EQ(From(container(), kHostIp6), (Reply{"web", kBridgeIp6}));
  EXPECT_TRUE(IsSilent(outside(), {.protocol = Protocol::kUdp, .to = kHostIp4, .port = 8080}));
}

TEST_P(PublishedPort, AnswersOnlyTheHostOnLocalhost) {
  Add("tcp", "127.0.0.1");
  EXPECT_EQ(From(host(), "127.0.0.1"), (Reply{"web", kBridgeIp4}));
  EXPECT_TRUE(IsSilent(outside(), {.to = kHostIp4, .port = 8080}));
}

TEST_P(PublishedPort, IsSilentAfterDel) {
  Add();
  Detach(DualStack(), As("web", container()));
  for (const std::string address : {kHostIp4, kHostIp6}) {
    EXPECT_TRUE(IsSilent(outside(), {.to = address, .port = 8080}));
    EXPECT_TRUE(IsSilent(host(), {.to = address, .port = 8080}));
  }
}

const auto kGrounds = ::testing::Values(Ground{Forward::kAccepts, false},
                                        Ground{Forward::kAccepts, true},
                                        Ground{Forward::kDrops, false},
                                        Ground{Forward::kDrops, true},
                                        Ground{Forward::kDropsBehind, false},
                                        Ground{Forward::kDropsBehind, true});

INSTANTIATE_TEST_SUITE_P(Forward, PublishedPort, kGrounds, NameOf);
INSTANTIATE_TEST_SUITE_P(Forward, PublishedTcpPort, kGrounds, NameOf);
INSTANTIATE_TEST_SUITE_P(Forward, PublishedUdpPort, kGrounds, NameOf);

}  // namespace
}  // namespace nomad_bridge::test
