// UDP flows that outlive what they led to: forgotten on ADD and DEL, all others kept.
#include <algorithm>
#include <iterator>

#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class Flows : public World {
 protected:
  // conntrack sees flows only where a rule asks for them: another attachment has been on the node
  // before.
  Flows() { Attach(DualStack(), As("first", AddContainer("first"))); }

  // The entries of conntrack -L whose original destination is this port.
  [[nodiscard]] std::vector<std::string> To(int port, const std::string& protocol = "udp") {
    std::vector<std::string> found;
    for (const std::string family : {"ipv4", "ipv6"}) {
      const std::string listed = host().Must(
          Words(Cat("conntrack -L -f ", family, " -p ", protocol, " --orig-port-dst ", port)));
      std::ranges::copy(Lines(listed), std::back_inserter(found));
    }
    return found;
  }

  // One datagram from a port of its own, as a client that keeps talking sends them.
  [[nodiscard]] std::string Talk(const std::string& to, std::uint16_t port) {
    return Ask(outside(), {.protocol = Protocol::kUdp, .to = to, .port = port, .from_port = 40000})
        .value_or(Reply{})
        .text;
  }

  [[nodiscard]] static json Dns(const std::string& host_ip = "") {
    return Publish({Port(5353, 53, "udp", host_ip)}, DualStack());
  }
};

TEST_F(Flows, ToTheHostGoOnToTheAllocationOnceItsPortIsPublished) {
  Serve(host(), Protocol::kUdp, {kHostIp4, kHostIp6}, 5353, "host");
  EXPECT_EQ(Talk(kHostIp4, 5353), "host");
  EXPECT_EQ(Talk(kHostIp6, 5353), "host");
  ASSERT_THAT(To(5353), SizeIs(2));
  Attach(Dns(), As("dns", container()));
  EXPECT_THAT(To(5353), IsEmpty());
  Serve(container(), Protocol::kUdp, {"172.26.64.3", "fd00:26::3"}, 53, "dns");
  EXPECT_EQ(Talk(kHostIp4, 5353), "dns");
  EXPECT_EQ(Talk(kHostIp6, 5353), "dns");
}

TEST_F(Flows, ToAnAllocationEndWithIt) {
  Attach(Dns(), As("dns", container()));
  Serve(container(), Protocol::kUdp, {"172.26.64.3", "fd00:26::3"}, 53, "dns");
  EXPECT_EQ(Talk(kHostIp4, 5353), "dns");
  EXPECT_EQ(Talk(kHostIp6, 5353), "dns");
  ASSERT_THAT(To(5353), SizeIs(2));
  Detach(Dns(), As("dns", container()));
  EXPECT_THAT(To(5353), IsEmpty());
}

TEST_F(Flows, GoOnToTheNextThatPublishesThePort) {
  Attach(Dns(), As("dns", container()));
  Serve(container(), Protocol::kUdp, {"172.26.64.3"}, 53, "old");
  EXPECT_EQ(Talk(kHostIp4, 5353), "old");
  Detach(Dns(), As("dns", container()));
  const Node& next = AddContainer("next");
  Attach(Dns(), As("next", next));
  Serve(next, Protocol::kUdp, {"172.26.64.4"}, 53, "new");
  EXPECT_EQ(Talk(kHostIp4, 5353), "new");
}

TEST_F(Flows, OfOthersAreKept) {
  Serve(host(), Protocol::kUdp, {kHostIp4, kHostIp6, kBridgeIp4}, 5354, "host");
  Serve(host(), Protocol::kUdp, {kBridgeIp4}, 5353, "host");
  Serve(host(), Protocol::kTcp, {kHostIp4}, 5353, "host");
  EXPECT_EQ(Talk(kHostIp4, 5354), "host");
  EXPECT_EQ(Talk(kHostIp6, 5354), "host");
  EXPECT_EQ(Talk(kBridgeIp4, 5353), "host");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 5353), "host");
  Attach(Dns(kHostIp4), As("dns", container()));
  Detach(Dns(kHostIp4), As("dns", container()));
  EXPECT_THAT(To(5354), SizeIs(2)) << "another port";
  EXPECT_THAT(To(5353), SizeIs(1)) << "another host address than the published one";
  EXPECT_THAT(To(5353, "tcp"), SizeIs(1)) << "another protocol";
}

}  // namespace
}  // namespace nomad_bridge::test
