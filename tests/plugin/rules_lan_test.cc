// Published ports, and ways through the node, beside an allocation on the node's own LAN bridge.
#include "tests/plugin/lan_world.h"

namespace nomad_bridge::test {
namespace {

// The parameter: bridge-nf-call-iptables.
class BesideLan : public LanWorld, public ::testing::WithParamInterface<const char*> {
 protected:
  BesideLan() {
    SetBridgeNf(GetParam());
    outside().Must(Words(Cat("ip address add ", kFarIp4, "/32 dev lo")));
    outside().Must(Words(Cat("ip address add ", kFarIp6, "/128 dev lo nodad")));
  }

  // Behind the LAN's router, which is the machine outside.
  static constexpr const char* kFarIp4 = "203.0.113.9";
  static constexpr const char* kFarIp6 = "2001:db8:9::9";
};

TEST_P(BesideLan, APublishedPortSeesTheAddressesOfItsClients) {
  Attach(Publish({Port(8080, kPort), Port(8080, kPort, "udp")}, DualStack()));
  for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp}) {
    Serve(container(), protocol, {"172.26.64.2", "fd00:26::2"}, kPort, "routed");
  }
  Attach(OnLan(), As("other", other_));

  for (const auto& [host_ip, client] : {std::pair(kHostIp4, kOutsideIp4),
                                        std::pair(kHostIp4, kFarIp4),
                                        std::pair(kHostIp6, kOutsideIp6),
                                        std::pair(kHostIp6, kFarIp6)}) {
    for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp}) {
      EXPECT_EQ(Ask(outside(), {.protocol = protocol, .to = host_ip, .port = 8080, .from = client}),
                (Reply{"routed", client}));
    }
  }
}

// Also the LAN's own machines, whose answers would miss the node.
TEST_P(BesideLan, APublishedPortOfAnAllocationOnTheLanAnswersEverybody) {
  AddMachine();
  Attach(DualStack());
  json config = Publish({Port(8080, kPort)}, OnLan());
  config["ipam"]["routes"] = {{{"dst", "0.0.0.0/0"}}, {{"dst", "::/0"}}};
  Attach(config, As("other", other_));
  Serve(other_, Protocol::kTcp, {"198.51.100.50", "2001:db8:100::50"}, kPort, "on the LAN");

  for (const auto& [host_ip, far] : {std::pair(kHostIp4, kFarIp4), std::pair(kHostIp6, kFarIp6)}) {
    for (const Node* const client : std::initializer_list<const Node*>{
             &outside(), &machine(), &container(), &other_, &host()}) {
      EXPECT_EQ(TcpText(*client, host_ip, 8080), "on the LAN") << client->name() << ' ' << host_ip;
    }
    EXPECT_TRUE(Ask(outside(), {.to = host_ip, .port = 8080, .from = far})) << far;
  }
}

// Of what goes one way through the node and the other way beside it conntrack sees one half.
TEST_P(BesideLan, AnAllocationBehindTheNodeTalksWithMachinesBehindTheRouter) {
  Serve(outside(), Protocol::kTcp, {kFarIp4, kFarIp6}, kPort, "far");
  Attach(OnLanBehindTheNode());
  Serve(container(), Protocol::kTcp, {"198.51.100.50", "2001:db8:100::50"}, kPort, "on the LAN");

  for (const auto& [far, address] :
       {std::pair(kFarIp4, "198.51.100.50"), std::pair(kFarIp6, "2001:db8:100::50")}) {
    EXPECT_EQ(AskOutside(container(), far), (Reply{"far", address}));
    EXPECT_EQ(Ask(outside(), {.to = address, .port = kPort, .from = far}),
              (Reply{"on the LAN", far}));
  }
}

INSTANTIATE_TEST_SUITE_P(BridgeNfCallIptables, BesideLan, ::testing::Values("0", "1"));

}  // namespace
}  // namespace nomad_bridge::test
