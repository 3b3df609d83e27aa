// Out of the allocation: to the gateway, to neighbours, and as the node to the outside; and many
// first ADDs at once.
#include <filesystem>
#include <sstream>

#include "tests/plugin/link_world.h"

namespace nomad_bridge::test {
namespace {

using nlohmann::json;

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

  EXPECT_EQ(Ask(guest(), {.to = kOutsideIp4, .port = kPort}), As("four", kHostIp4));
  EXPECT_EQ(Ask(guest(), {.protocol = Protocol::kUdp, .to = kOutsideIp6, .port = kPort}),
            As("six", kHostIp6));
}

TEST_F(EgressTest, IsItselfToTheOutsideWithoutIpMasq) {
  const Server server = Server::Start(outside(), Protocol::kTcp, "0.0.0.0", kPort, "four");

  MustAdd(Network(R"({"ipMasq": false})"));

  // The outside's default route leads back through the host.
  EXPECT_EQ(Ask(guest(), {.to = kOutsideIp4, .port = kPort}), As("four", "172.26.64.2"));
}

TEST_F(EgressTest, IsItselfToTheNodeAndToNeighbours) {
  Node& neighbour = AddGuest("neighbour");
  MustAdd(Network(kDualStack));
  MustAdd(Network(kDualStack), As("neighbour", neighbour));
  const Server on_host = Server::Start(host(), Protocol::kTcp, "::", kPort, "host");
  const Server next_door = Server::Start(neighbour, Protocol::kTcp, "::", kPort, "neighbour");

  EXPECT_EQ(Ask(guest(), {.to = "fd00:26::1", .port = kPort}), As("host", "fd00:26::2"));
  EXPECT_EQ(Ask(guest(), {.to = "fd00:26::3", .port = kPort}), As("neighbour", "fd00:26::2"));
  EXPECT_EQ(Ask(guest(), {.to = "172.26.64.3", .port = kPort}),
            As("neighbour", "::ffff:172.26.64.2"));
}

TEST_F(EgressTest, FitsTheMtuOfTheNetwork) {
  MustAdd(Network(R"({"mtu": 1400})"));

  const auto ping = [&](int bytes) {
    return guest()
        .Run({"ping", "-n", "-c1", "-W3", "-Mdo", "-s", Cat(bytes), kOutsideIp4})
        .exit_code;
  };
  constexpr int kHeaders = 28;
  EXPECT_EQ(ping(1400 - kHeaders), 0);
  EXPECT_NE(ping(1401 - kHeaders), 0);
}

// ---- the first ones, all at once

constexpr std::size_t kMany = 20;

class AtOnceTest : public LinkWorld {
 protected:
  AtOnceTest() {
    for (std::size_t i = 0; i < kMany; ++i) {
      nodes_.push_back(&AddGuest(Cat("n", i)));
    }
  }

  [[nodiscard]] const std::vector<const Node*>& nodes() const { return nodes_; }

  // The verb for every node at the same time; it must succeed for all.
  std::vector<json> RunAll(const std::string& verb) {
    std::vector<Process> started;
    started.reserve(kMany);
    for (const Node* node : nodes_) {
      started.push_back(StartPlugin(verb, Network(kDualStack), As(node->name(), *node)));
    }
    std::vector<json> results;
    results.reserve(kMany);
    for (Process& process : started) {
      const Outcome outcome = process.Wait();
      EXPECT_EQ(outcome.exit_code, 0) << verb << ": " << outcome;
      results.push_back(outcome.json);
    }
    return results;
  }

 private:
  std::vector<const Node*> nodes_;
};

TEST_F(AtOnceTest, TwentyFirstAddsAllSucceed) {
  std::set<std::string> addresses;
  for (const json& result : RunAll("ADD")) {
    for (const std::string& address : AddressesIn(result)) {
      addresses.insert(address);
    }
  }

  EXPECT_EQ(addresses.size(), 2 * kMany);
  EXPECT_EQ(Leased().size(), 2 * kMany);
  EXPECT_EQ(PortsOf("nomad").size(), kMany);
  EXPECT_EQ(AddressesOn(host(), "nomad").size(), 2U);
  for (const Node* node : nodes()) {
    EXPECT_TRUE(Ping(*node, "172.26.64.1")) << node->name();
    EXPECT_TRUE(Ping(*node, "fd00:26::1")) << node->name();
  }
}

// The rules of all chains, each a line.
std::multiset<std::string> RulesOf(const std::string& text, const std::string& begin) {
  std::multiset<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with(begin)) {
      lines.insert(line);
    }
  }
  return lines;
}

TEST_F(AtOnceTest, TwentyFirstAddsMakeEveryRuleOnce) {
  // One alone says what there should be; then the machine is bare again.
  MustAdd(Network(kDualStack));
  const Snapshot alone = TakeSnapshot();
  MustDel(Network(kDualStack));
  host().Must({"nft", "flush", "ruleset"});
  host().Must({"ip", "link", "del", "nomad"});
  std::filesystem::remove_all("/run/nomad-bridge");

  RunAll("ADD");

  const auto rules = [](const Snapshot& snapshot) {
    return RulesOf(snapshot.Lines(" chain "), "host nft");
  };
  EXPECT_EQ(rules(TakeSnapshot()), rules(alone));
  EXPECT_FALSE(rules(alone).empty());
  for (const char* program : {"iptables", "ip6tables"}) {
    const std::string all = host().Must({program, "-S"});
    EXPECT_EQ(RulesOf(all, "-A FORWARD").size(), 1U) << all;
    EXPECT_EQ(RulesOf(all, "-A CNI-FORWARD").size(), 2U) << all;
  }
}

TEST_F(AtOnceTest, TwentyComeAndGo) {
  RunAll("ADD");
  RunAll("DEL");

  EXPECT_THAT(Leased(), ::testing::IsEmpty());
  EXPECT_EQ(PortsOf("nomad").size(), 0U);
  EXPECT_EQ(TakeSnapshot().Lines(" element of alloc"), "");
  EXPECT_EQ(TakeSnapshot().Lines("file /run/nomad-bridge/nomad"), "");
}

}  // namespace
}  // namespace nomad_bridge::test
