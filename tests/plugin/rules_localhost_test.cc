// 127.0.0.0/8 of the node and what comes from an allocation, with our tables and while they are
// flushed.
#include "tests/support/frames.h"
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

// The parameter: bridge-nf-call-iptables.
class Localhost : public World, public ::testing::WithParamInterface<const char*> {
 protected:
  // route_localnet is on, as for any published port, and the kernel's own filter is off.
  Localhost() {
    SetBridgeNf(GetParam());
    Attach(Publish({Port(8080, 80)}, Unchecked()), As("web", container()));
    Attach(Unchecked(), As("neighbour", neighbour_));
    for (const std::string link : {"all", "nomad"}) {
      host().SetSysctl(Cat("net/ipv4/conf/", link, "/rp_filter"), "0");
    }
    EXPECT_EQ(host().Sysctl("net/ipv4/conf/nomad/route_localnet"), "1");
  }

  // As under the reference names: what is forged gets beyond the port.
  [[nodiscard]] static json Unchecked() { return Config({{"sourceCheck", false}}); }

  [[nodiscard]] Server Listen(const Node& node) {
    return Server::Start(node, Protocol::kUdp, "0.0.0.0", 9000, "heard");
  }
  // Sends a datagram as somebody else by the container's interface, plain and with a priority tag,
  // and an honest one behind it: when that is answered, the others have arrived or never will.
  void Forge(const std::string& from, const std::string& to, const Node& target, const char* ip) {
    const Ethernet ethernet{.to = MacOf(target, &target == &host() ? "nomad" : "eth0"),
                            .from = MacOf(container(), "eth0")};
    const Bytes frame = UdpFrame(ethernet, {.from = from, .to = to});
    SendFrame(container(), "eth0", frame);
    SendFrame(container(), "eth0", WithPriorityTag(frame));
    SendFrame(container(), "eth0", WithPriorityTag(WithPriorityTag(frame)));
    EXPECT_EQ(UdpText(container(), ip, 9000), "heard");
  }
  [[nodiscard]] static auto OnlyHonest() { return ElementsAre("172.26.64.2"); }

  Node& neighbour_ = AddContainer("neighbour");
};

TEST_P(Localhost, NeverReachesTheNodeAsASource) {
  Server server = Listen(host());
  // The kernel itself drops a source that is one of its addresses, 127.0.0.1, unless accept_local
  // is on.
  Forge("127.0.0.5", kBridgeIp4, host(), kBridgeIp4);
  host().SetSysctl("net/ipv4/conf/nomad/accept_local", "1");
  Forge("127.0.0.1", kBridgeIp4, host(), kBridgeIp4);
  EXPECT_THAT(server.Heard(), ElementsAre("172.26.64.2", "172.26.64.2"));
}

TEST_P(Localhost, IsNotMasqueradedAsASourceTowardsANeighbour) {
  // Else a published port of the neighbour would answer it: the source is then the bridge's
  // address.
  Attach(Publish({Port(9000, 9000, "udp")}, Unchecked()), As("neighbour", neighbour_));
  Server server = Listen(neighbour_);
  Forge("127.0.0.1", "172.26.64.3", neighbour_, "172.26.64.3");
  EXPECT_THAT(server.Heard(), OnlyHonest());
}

TEST_P(Localhost, IsClosedWhileOurTablesAreFlushed) {
  host().Must({"nft", "flush", "ruleset"});
  Server server = Listen(host());
  Forge("172.26.64.2", "127.0.0.1", host(), kBridgeIp4);
  Forge("127.0.0.5", kBridgeIp4, host(), kBridgeIp4);
  host().SetSysctl("net/ipv4/conf/nomad/accept_local", "1");
  Forge("127.0.0.1", "127.0.0.1", host(), kBridgeIp4);
  EXPECT_THAT(server.Heard(), ElementsAre("172.26.64.2", "172.26.64.2", "172.26.64.2"));
}

TEST_P(Localhost, GetsAMissingFilterBackWithTheNextAdd) {
  host().Must({"tc", "qdisc", "delete", "dev", "nomad", "clsact"});
  Attach(Publish({Port(8081, 80)}, Unchecked()), As("third", AddContainer("third")));
  host().Must({"nft", "flush", "ruleset"});
  Server server = Listen(host());
  Forge("172.26.64.2", "127.0.0.1", host(), kBridgeIp4);
  EXPECT_THAT(server.Heard(), OnlyHonest());
}

TEST_P(Localhost, LeavesOtherFiltersOfTheBridgeAlone) {
  host().Must(Words("tc filter add dev nomad ingress pref 5 u32 match u32 0 0 classid 1:1"));
  Attach(Publish({Port(8081, 80)}, Unchecked()), As("third", AddContainer("third")));
  const std::string filters = host().Must(Words("tc filter show dev nomad ingress"));
  EXPECT_THAT(filters, HasSubstr("pref 5 u32"));
  EXPECT_THAT(filters, HasSubstr("direct-action"));
}

INSTANTIATE_TEST_SUITE_P(BridgeNfCallIptables, Localhost, ::testing::Values("0", "1"));

// Whoever is on a link of the node can address a frame for 127.0.0.1 to it.
class PortOnLocalhost : public World {};

TEST_F(PortOnLocalhost, DoesNotAnswerTheLanNorAnotherBridge) {
  Attach(Publish({Port(9000, 9000, "udp", "127.0.0.1")}));
  Server server = Server::Start(container(), Protocol::kUdp, "0.0.0.0", 9000, "web");
  const Node& machine = AddContainer("machine");
  host().Must(Words("ip link add others up type bridge"));
  host().Must(Words("ip address add 10.7.0.1/24 dev others"));
  host().Must(Words("ip link add tap0 up master others type veth peer name eth0 netns machine"));
  machine.Must(Words("ip address add 10.7.0.2/24 dev eth0"));
  machine.Must(Words("ip link set eth0 up"));

  SendFrame(outside(),
            "uplink",
            UdpFrame({.to = MacOf(host(), "uplink"), .from = MacOf(outside(), "uplink")},
                     {.from = kOutsideIp4, .to = "127.0.0.1"}));
  SendFrame(machine,
            "eth0",
            UdpFrame({.to = MacOf(host(), "others"), .from = MacOf(machine, "eth0")},
                     {.from = "10.7.0.2", .to = "127.0.0.1"}));

  // What was sent before has arrived by now, or never will.
  EXPECT_EQ(UdpText(host(), "127.0.0.1", 9000), "web");
  EXPECT_THAT(server.Heard(), Not(AnyOf(Contains(kOutsideIp4), Contains("10.7.0.2"))));
}

}  // namespace
}  // namespace nomad_bridge::test
