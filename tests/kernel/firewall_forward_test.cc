// What may pass between allocations, the node and the world, tried with real traffic where
// everything else is dropped.

#include "tests/kernel/ruleset_world.h"

namespace nomad_bridge::test {
namespace {

class Forwarding : public RulesetWorld, public ::testing::WithParamInterface<bool> {
 protected:
  Forwarding() {
    MakeBridge();
    PlugIn(container(), 2);
    neighbour_ = &AddContainer("neighbour");
    PlugIn(*neighbour_, 3);
    for (const char* const setting : {"iptables", "ip6tables"}) {
      host().SetSysctl(Cat("net/bridge/bridge-nf-call-", setting), GetParam() ? "1" : "0");
      host().Must({setting, "-P", "FORWARD", "DROP"});
    }
    Put(DesiredOf(2));
    Put(DesiredOf(3), {DesiredOf(2)});
  }

  Node* neighbour_ = nullptr;
};

TEST_P(Forwarding, MasqueradesAnAllocationTowardsTheOutside) {
  const Server server4 = Server::Start(outside(), Protocol::kTcp, kOutsideIp4, 80, "outside");
  const Server server6 = Server::Start(outside(), Protocol::kTcp, kOutsideIp6, 80, "outside");
  EXPECT_EQ(Ask(container(), {.to = kOutsideIp4, .port = 80}), (Reply{"outside", kHostIp4}));
  EXPECT_EQ(Ask(container(), {.to = kOutsideIp6, .port = 80}), (Reply{"outside", kHostIp6}));
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
}

TEST_P(Forwarding, KeepsTheAddressOfAnAllocationWithoutMasquerade) {
  DesiredState plain = DesiredOf(2);
  std::erase_if(plain.elements,
                [](const nft::Element& element) { return element.set.starts_with("masq"); });
  firewall::RemoveElements(socket_, DesiredOf(2).elements, std::nullopt);
  Put(plain);
  outside().Must({"ip", "route", "add", "172.26.64.0/20", "via", kHostIp4});
  const Server server = Server::Start(outside(), Protocol::kTcp, kOutsideIp4, 80, "outside");
  EXPECT_EQ(Ask(container(), {.to = kOutsideIp4, .port = 80}), (Reply{"outside", Ip4(2)}));
}

TEST_P(Forwarding, KeepsTheAddressesBetweenNeighbours) {
  const Server server4 = Server::Start(container(), Protocol::kTcp, Ip4(2), 80, "container");
  const Server server6 = Server::Start(container(), Protocol::kTcp, Ip6(2), 80, "container");
  EXPECT_EQ(Ask(*neighbour_, {.to = Ip4(2), .port = 80}), (Reply{"container", Ip4(3)}));
  EXPECT_EQ(Ask(*neighbour_, {.to = Ip6(2), .port = 80}), (Reply{"container", Ip6(3)}));
}

TEST_P(Forwarding, AcceptsNothingNewFromOutside) {
  outside().Must({"ip", "route", "add", "172.26.64.0/20", "via", kHostIp4});
  Server server = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "container");
  EXPECT_EQ(TcpText(outside(), Ip4(2), 80), "");
  EXPECT_THAT(server.Heard(), IsEmpty());
}

// A source address that no allocation has.
TEST_P(Forwarding, DropsWhatAnAllocationSendsUnderAnotherAddress) {
  container().Must({"ip", "address", "add", "172.26.64.77/32", "dev", "lo"});
  Server server = Server::Start(outside(), Protocol::kUdp, kOutsideIp4, 80, "outside");
  EXPECT_EQ(
      Ask(container(),
          {.protocol = Protocol::kUdp, .to = kOutsideIp4, .port = 80, .from = "172.26.64.77"}),
      std::nullopt);
  EXPECT_THAT(server.Heard(), IsEmpty());
}

// In the right set, but from the wrong interface.
TEST_P(Forwarding, DropsAnAllocationsAddressThatComesFromOutside) {
  for (const char* const link : {"all", "uplink"}) {
    host().SetSysctl(Cat("net/ipv4/conf/", link, "/rp_filter"), "0");
  }
  outside().Must({"ip", "address", "add", Cat(Ip4(3), "/32"), "dev", "lo"});
  outside().Must({"ip", "route", "add", Cat(Ip4(2), "/32"), "via", kHostIp4});
  Server server = Server::Start(container(), Protocol::kUdp, Ip4(2), 80, "container");
  EXPECT_EQ(Ask(outside(), {.protocol = Protocol::kUdp, .to = Ip4(2), .port = 80, .from = Ip4(3)}),
            std::nullopt);
  EXPECT_THAT(server.Heard(), IsEmpty());
}

TEST_P(Forwarding, AppliesTheOperatorsChainFirst) {
  const Server server = Server::Start(outside(), Protocol::kTcp, kOutsideIp4, 80, "outside");
  host().Must({"iptables", "-A", "NOMAD-ADMIN", "-d", kOutsideIp4, "-j", "DROP"});
  EXPECT_EQ(TcpText(container(), kOutsideIp4, 80), "");
  host().Must({"iptables", "-F", "NOMAD-ADMIN"});
  EXPECT_EQ(TcpText(container(), kOutsideIp4, 80), "outside");
}

// route_localnet is on: without localhost_guard every allocation could reach the node's localhost.
TEST_P(Forwarding, KeepsTheNodesLocalhostClosed) {
  container().Must({"ip", "address", "flush", "dev", "lo"});
  container().Must({"ip", "route", "add", "127.0.0.1", "via", "172.26.64.1", "src", Ip4(2)});
  Server server = Server::Start(host(), Protocol::kUdp, "127.0.0.1", 7000, "host");
  const Call call = {.protocol = Protocol::kUdp,
                     .to = "127.0.0.1",
                     .port = 7000,
                     .patience = std::chrono::milliseconds(300)};
  static_cast<void>(Ask(container(), call));
  EXPECT_THAT(server.Heard(), IsEmpty());
  host().Must({"nft", "flush", "chain", "inet", "nomad-bridge", "localhost_guard"});
  static_cast<void>(Ask(container(), call));  // the container drops the answer from 127.0.0.1
  EXPECT_THAT(server.Heard(), ElementsAre(Ip4(2))) << "the test itself is broken";
}

INSTANTIATE_TEST_SUITE_P(Grounds, Forwarding, ::testing::Bool(), [](const auto& br_netfilter) {
  return br_netfilter.param ? "BrNetfilter" : "NoBrNetfilter";
});

}  // namespace
}  // namespace nomad_bridge::test
