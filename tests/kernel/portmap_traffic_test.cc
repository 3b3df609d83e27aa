// Published ports, tried with real traffic from every place a caller may be in.
#include <array>
#include <ostream>

#include "base/list.h"
#include "portmap/rules.h"
#include "tests/kernel/ruleset_world.h"

namespace nomad_bridge::test {
namespace {

constexpr std::array kHostAddresses = {kHostIp4, kHostIp6, "172.26.64.1", "fd00:26::1"};

struct Ground {
  bool forward_drops;  // FORWARD's policy, as Docker leaves it
  bool br_netfilter;   // bridged packets pass iptables and nf_tables too
};

void PrintTo(const Ground& ground, std::ostream* out) {
  *out << (ground.forward_drops ? "ForwardDrop" : "ForwardAccept")
       << (ground.br_netfilter ? "BrNetfilter" : "NoBrNetfilter");
}

class PublishedPort : public RulesetWorld, public ::testing::WithParamInterface<Ground> {
 protected:
  PublishedPort() {
    table_ = TableOf({&firewall::kForwarding, &portmap::kPublishedPorts});
    MakeBridge();
    PlugIn(container(), 2);
    neighbour_ = &AddContainer("neighbour");
    PlugIn(*neighbour_, 3);
    const std::string value = GetParam().br_netfilter ? "1" : "0";
    host().SetSysctl("net/bridge/bridge-nf-call-iptables", value);
    host().SetSysctl("net/bridge/bridge-nf-call-ip6tables", value);
    if (GetParam().forward_drops) {
      host().Must({"iptables", "-P", "FORWARD", "DROP"});
      host().Must({"ip6tables", "-P", "FORWARD", "DROP"});
    }
    Put(DesiredOf(3));
  }

  // Publishes host port 8080 to container 2's port 80, of both families, and starts its server.
  void Apply(portmap::Protocol protocol,
             const std::string& host_ip = "",
             const firewall::AddressPolicy& policy = {.masquerade = true, .snat = true}) {
    const auto published = portmap::MakePortMappings({{.path = "p",
                                                       .host_port = 8080,
                                                       .container_port = 80,
                                                       .protocol = portmap::Text(protocol),
                                                       .host_ip = host_ip}});
    DesiredState desired = DesiredOf(2, policy);
    const auto mappings =
        portmap::Resolve(published, {Ip::Parse(Ip4(2)).value(), Ip::Parse(Ip6(2)).value()});
    Append(desired.elements, portmap::Elements(mappings, Comment(2)));
    ASSERT_FALSE(Put(desired, {DesiredOf(3)}).conflict);
    const Protocol spoken = protocol == portmap::Protocol::kUdp ? Protocol::kUdp : Protocol::kTcp;
    for (const std::string& address : {Ip4(2), Ip6(2)}) {
      servers_.push_back(Server::Start(container(), spoken, address, 80, "container"));
    }
  }

  Node* neighbour_ = nullptr;
  std::vector<Server> servers_;
};

TEST_P(PublishedPort, ShowsCallersFromOutsideUnderTheirAddress) {
  Apply(portmap::Protocol::kTcp);
  EXPECT_EQ(Ask(outside(), {.to = kHostIp4, .port = 8080}), (Reply{"container", kOutsideIp4}));
  EXPECT_EQ(Ask(outside(), {.to = kHostIp6, .port = 8080}), (Reply{"container", kOutsideIp6}));
}

TEST_P(PublishedPort, AnswersTheHostOnItsAddresses) {
  Apply(portmap::Protocol::kTcp);
  for (const char* const address : kHostAddresses) {
    EXPECT_EQ(TcpText(host(), address, 8080), "container") << address;
  }
}

TEST_P(PublishedPort, AnswersLocalhost) {
  Apply(portmap::Protocol::kTcp);
  EXPECT_EQ(Ask(host(), {.to = "127.0.0.1", .port = 8080}), (Reply{"container", "172.26.64.1"}));
}

// The kernel drops answers for ::1 from any link but lo, so that port is left to the host itself.
TEST_P(PublishedPort, LeavesIpv6LocalhostToTheHost) {
  Apply(portmap::Protocol::kTcp);
  EXPECT_EQ(Ask(host(), {.to = "::1", .port = 8080}), std::nullopt);
  const Server on_host = Server::Start(host(), Protocol::kTcp, "::1", 8080, "host");
  EXPECT_EQ(Ask(host(), {.to = "::1", .port = 8080}), (Reply{"host", "::1"}));
}

TEST_P(PublishedPort, AnswersANeighbour) {
  Apply(portmap::Protocol::kTcp);
  for (const char* const address : kHostAddresses) {
    EXPECT_EQ(TcpText(*neighbour_, address, 8080), "container") << address;
  }
}

TEST_P(PublishedPort, AnswersItsOwnAllocation) {
  Apply(portmap::Protocol::kTcp);
  for (const char* const address : kHostAddresses) {
    EXPECT_EQ(TcpText(container(), address, 8080), "container") << address;
  }
}

TEST_P(PublishedPort, ForwardsUdp) {
  Apply(portmap::Protocol::kUdp);
  EXPECT_EQ(UdpText(outside(), kHostIp4, 8080), "container");
  EXPECT_EQ(UdpText(outside(), kHostIp6, 8080), "container");
  EXPECT_EQ(UdpText(host(), "127.0.0.1", 8080), "container");
  EXPECT_EQ(UdpText(container(), kHostIp4, 8080), "container");
  EXPECT_EQ(UdpText(*neighbour_, kHostIp6, 8080), "container");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "") << "only UDP was published";
}

TEST_P(PublishedPort, AnswersOnlyOnItsHostAddress) {
  Apply(portmap::Protocol::kTcp, kHostIp4);
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "container");
  EXPECT_EQ(TcpText(host(), kHostIp4, 8080), "container");
  EXPECT_EQ(TcpText(host(), "127.0.0.1", 8080), "");
  EXPECT_EQ(TcpText(*neighbour_, "172.26.64.1", 8080), "");
  EXPECT_EQ(TcpText(outside(), kHostIp6, 8080), "");
}

// Without snat the way back misses the node only if caller and allocation are on one bridge.
TEST_P(PublishedPort, KeepsTheCallersAddressWithoutSnat) {
  Apply(portmap::Protocol::kTcp, "", {.masquerade = true});
  const Call from_neighbour = {
      .to = kHostIp4, .port = 8080, .patience = std::chrono::milliseconds(300)};
  EXPECT_EQ(Ask(outside(), {.to = kHostIp4, .port = 8080}), (Reply{"container", kOutsideIp4}));
  if (!GetParam().br_netfilter) {
    EXPECT_EQ(Ask(*neighbour_, from_neighbour), std::nullopt);
  }
}

TEST_P(PublishedPort, MasqueradesEveryCallerWithMasqAll) {
  Apply(portmap::Protocol::kTcp, "", {.snat = true, .masquerade_all = true});
  EXPECT_EQ(Ask(outside(), {.to = kHostIp4, .port = 8080}), (Reply{"container", "172.26.64.1"}));
  EXPECT_EQ(Ask(outside(), {.to = kHostIp6, .port = 8080}), (Reply{"container", "fd00:26::1"}));
}

TEST_P(PublishedPort, LeavesOtherPortsAndForeignAddressesAlone) {
  Apply(portmap::Protocol::kTcp);
  const Server on_host = Server::Start(host(), Protocol::kTcp, "::", 8081, "host");
  const Server far_away = Server::Start(outside(), Protocol::kTcp, "::", 8080, "outside");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8081), "host");
  EXPECT_EQ(TcpText(container(), kOutsideIp4, 8080), "outside");
  EXPECT_EQ(TcpText(host(), kOutsideIp6, 8080), "outside");
}

INSTANTIATE_TEST_SUITE_P(Grounds,
                         PublishedPort,
                         ::testing::Values(Ground{false, false},
                                           Ground{true, false},
                                           Ground{false, true},
                                           Ground{true, true}),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace nomad_bridge::test
