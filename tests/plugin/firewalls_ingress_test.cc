// ingressPolicy: which networks reach each other.
#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

// Whether rules of the IP families see packets within one bridge is not ours to say. The parameter:
// bridge-nf-call-iptables.
class IngressPolicy : public CliWorld, public ::testing::WithParamInterface<const char*> {
 protected:
  IngressPolicy() { SetBridgeNf(GetParam()); }

  static json Network(const std::string& name, const std::string& subnet, const char* policy) {
    return {{"cniVersion", "1.0.0"},
            {"name", name},
            {"type", "nomad-bridge"},
            {"bridge", name},
            {"ingressPolicy", policy},
            {"ipam", {{"subnet", subnet}}}};
  }
  // Two allocations of net a, one of net b.
  void Make(const char* a, const char* b) {
    first_ = AddressOf(Attach(Network("neta", "10.1.0.0/24", a), As("a1", container())));
    second_ = AddressOf(Attach(Network("neta", "10.1.0.0/24", a), As("a2", neighbour_)));
    third_ = AddressOf(Attach(Network("netb", "10.2.0.0/24", b), As("b1", other_)));
  }

  Node& neighbour_ = AddContainer("neighbour");
  Node& other_ = AddContainer("other");
  std::string first_;
  std::string second_;
  std::string third_;
};

TEST_P(IngressPolicy, OpenNetworksReachEachOther) {
  Make("open", "open");
  EXPECT_TRUE(Ping(container(), third_));
  EXPECT_TRUE(Ping(other_, first_));
}

TEST_P(IngressPolicy, SameBridgeKeepsOutOtherBridgesThatAreNotOpen) {
  Make("same-bridge", "same-bridge");
  EXPECT_TRUE(Ping(container(), second_));
  EXPECT_FALSE(Ping(container(), third_));
  EXPECT_FALSE(Ping(other_, first_));
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
}

// As on two nodes.
TEST_P(IngressPolicy, LetsOthersInByAPublishedPort) {
  for (const char* const policy : {"same-bridge", "isolated"}) {
    const json prod = Publish({Port(8080, 80)}, DualStack({{"ingressPolicy", policy}}));
    json dev = DualStack({{"name", "dev"}, {"bridge", "dev"}, {"ingressPolicy", policy}});
    dev["ipam"]["ranges"] = {{{{"subnet", "10.2.0.0/24"}}}, {{{"subnet", "fd00:2::/64"}}}};
    const std::vector<std::string> addresses = AddressesIn(Attach(prod, As("prod", neighbour_)));
    Attach(dev, As("dev", container()));
    const Server page = Server::Start(neighbour_, Protocol::kTcp, "::", 80, "page");
    for (const char* const host_ip : {kHostIp4, kHostIp6}) {
      EXPECT_EQ(TcpText(container(), host_ip, 8080), "page") << policy << ' ' << host_ip;
    }
    for (const std::string& address : addresses) {
      const std::string ip = address.substr(0, address.find('/'));
      EXPECT_TRUE(IsSilent(container(), {.to = ip, .port = 80})) << policy << ' ' << ip;
    }
    Detach(prod, As("prod", neighbour_));
    Detach(dev, As("dev", container()));
  }
}

TEST_P(IngressPolicy, IsolatedKeepsOutItsOwnBridgeToo) {
  Make("isolated", "isolated");
  EXPECT_FALSE(Ping(container(), second_));
  EXPECT_FALSE(Ping(container(), third_));
  EXPECT_TRUE(Ping(container(), "10.1.0.1")) << "the gateway";
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
}

// With br_netfilter, the translated packets do not leave the bridge.
TEST_P(IngressPolicy, IsolatedLetsNeighboursInByAPublishedPort) {
  const json isolated = DualStack({{"ingressPolicy", "isolated"}});
  Attach(Publish({Port(8080, 80), Port(8053, 53, "udp")}, isolated), As("a1", container()));
  Attach(isolated, As("a2", neighbour_));
  Serve(container(), Protocol::kTcp, {"::"}, 80, "page");
  Serve(container(), Protocol::kUdp, {"172.26.64.2", "fd00:26::2"}, 53, "name");
  for (const Node* const from : {&neighbour_, &container()}) {
    for (const char* const to : {kHostIp4, kHostIp6, kBridgeIp4, kBridgeIp6}) {
      EXPECT_EQ(TcpText(*from, to, 8080), "page") << from->name() << " to " << to;
      EXPECT_EQ(UdpText(*from, to, 8053), "name") << from->name() << " to " << to;
    }
  }
  for (const char* const to : {"172.26.64.2", "fd00:26::2"}) {
    EXPECT_TRUE(IsSilent(neighbour_, {.to = to, .port = 80})) << to;
    EXPECT_TRUE(IsSilent(neighbour_, {.protocol = Protocol::kUdp, .to = to, .port = 53})) << to;
  }
  EXPECT_FALSE(Ping(container(), "fd00:26::3"));
  EXPECT_TRUE(Ping(container(), kBridgeIp6));
  EXPECT_TRUE(Ping(container(), kOutsideIp6));
}

TEST_P(IngressPolicy, IsolatedIsRepairedAndGoesWithTheAllocation) {
  Make("isolated", "open");
  host().Must({"nft", "flush", "ruleset"});
  Attach(Network("netb", "10.2.0.0/24", "open"), As("b2", AddContainer("more")));
  EXPECT_FALSE(Ping(container(), second_));
  for (const auto& [id, node] :
       {std::pair<std::string, Node*>{"a1", &container()}, {"a2", &neighbour_}}) {
    Detach(Network("neta", "10.1.0.0/24", "isolated"), As(id, *node));
  }
  EXPECT_THAT(host().Must(Words("nft list set bridge nomad-bridge isolated")),
              Not(HasSubstr("elements")));
}

// The five names in a list, and the firewall behind another plugin's bridge.
TEST_P(IngressPolicy, IsolatedHoldsUnderTheReferenceNames) {
  const json config = {{"cniVersion", "1.0.0"},
                       {"name", "neta"},
                       {"type", "bridge"},
                       {"bridge", "neta"},
                       {"isGateway", true},
                       {"ingressPolicy", "isolated"},
                       {"ipam", {{"type", "host-local"}, {"subnet", "10.1.0.0/24"}}}};
  std::vector<std::string> addresses;
  for (const auto& [id, node] :
       {std::pair<std::string, Node*>{"a1", &container()}, {"a2", &neighbour_}}) {
    const Outcome bridge = RunPlugin("ADD", config.dump(), As(id, *node), "bridge");
    ASSERT_EQ(bridge.exit_code, 0) << bridge;
    addresses.push_back(AddressOf(bridge.json));
    ASSERT_THAT(RunPlugin("ADD", WithResult(config, bridge.json).dump(), As(id, *node), "firewall"),
                Exits(0));
  }
  EXPECT_FALSE(Ping(container(), addresses[1]));
  EXPECT_TRUE(Ping(container(), "10.1.0.1"));
}

TEST_P(IngressPolicy, IsolatedHoldsBehindTheBridgeOfAnotherPlugin) {
  host().Must(Words("ip link add br9 up type bridge"));
  host().Must(Words("ip address add 10.9.0.1/24 dev br9"));
  int n = 2;
  for (Node* const node : {&container(), &neighbour_}) {
    const std::string veth = Cat("port", n);
    const std::string ip = Cat("10.9.0.", n, "/24");
    host().Must(Words(Cat("ip link add ", veth, " up master br9 type veth peer name eth0 netns ") +
                      node->name()));
    node->Must({"ip", "address", "add", ip, "dev", "eth0"});
    node->Must({"ip", "link", "set", "eth0", "up"});
    const json config = {
        {"cniVersion", "1.0.0"},
        {"name", "net9"},
        {"type", "firewall"},
        {"ingressPolicy", "isolated"},
        {"prevResult",
         {{"cniVersion", "1.0.0"},
          {"interfaces",
           {{{"name", "br9"}}, {{"name", veth}}, {{"name", "eth0"}, {"sandbox", node->path()}}}},
          {"ips", {{{"address", ip}, {"interface", 2}}}}}}};
    ASSERT_THAT(RunPlugin("ADD", config.dump(), As(Cat("c", n), *node), "firewall"), Exits(0));
    ++n;
  }
  EXPECT_FALSE(Ping(container(), "10.9.0.3"));
  EXPECT_TRUE(Ping(container(), "10.9.0.1"));
}

TEST_P(IngressPolicy, FollowsTheNetworksCurrentConfig) {
  for (const char* const earlier : {"isolated", "same-bridge", "open", "same-bridge"}) {
    const json network = Network("neta", "10.1.0.0/24", earlier);
    Attach(network, As("early", container()));
    Detach(network, As("early", container()));
  }

  Make("isolated", "same-bridge");

  EXPECT_FALSE(Ping(container(), second_));
  EXPECT_FALSE(Ping(other_, first_));
  for (const auto& [id, node] :
       {std::pair<std::string, Node*>{"a1", &container()}, {"a2", &neighbour_}}) {
    Detach(Network("neta", "10.1.0.0/24", "isolated"), As(id, *node));
  }
  const std::string first =
      AddressOf(Attach(Network("neta", "10.1.0.0/24", "open"), As("a3", container())));
  EXPECT_TRUE(Ping(other_, first));
}

TEST_P(IngressPolicy, IsRemovedWhenTheNetworkIsOpenedAgain) {
  Make("same-bridge", "same-bridge");
  EXPECT_FALSE(Ping(container(), third_));
  for (const auto& [id, node] :
       {std::pair<std::string, Node*>{"a1", &container()}, {"a2", &neighbour_}}) {
    Attach(Network("neta", "10.1.0.0/24", "open"), As(id, *node));
  }
  EXPECT_TRUE(Ping(container(), third_));
}

INSTANTIATE_TEST_SUITE_P(BridgeNfCallIptables, IngressPolicy, ::testing::Values("0", "1"));

}  // namespace
}  // namespace nomad_bridge::test
