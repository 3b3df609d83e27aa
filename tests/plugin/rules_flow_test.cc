// UDP flows that outlive what they led to: forgotten on ADD and DEL, all others kept.
#include <iterator>

#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class Flows : public World {
 protected:
  // conntrack sees flows only where a rule asks for them: another attachment has been on the node
  // before.
  Flows() : first_(&AddContainer("first")) { Attach(DualStack(), As("first", *first_)); }

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

  // The entries themselves, whatever their state.
  [[nodiscard]] std::vector<std::string> IdsTo(int port) {
    std::vector<std::string> ids;
    for (const std::string family : {"ipv4", "ipv6"}) {
      const std::string listed = host().Must(
          Words(Cat("conntrack -L -o id -p udp -f ", family, " --orig-port-dst ", port)));
      for (const std::string& line : Lines(listed)) {
        ids.push_back(line.substr(line.find("id=")));
      }
    }
    return ids;
  }

  // What our table no longer asks for, somebody else's does: the kernel goes on tracking flows.
  void DeleteOurTable() {
    host().Nft(
        "table inet other { chain in { type filter hook prerouting priority 0; "
        "ct state invalid counter; }; }");
    host().Must({"nft", "delete", "table", "inet", kTable});
  }

  [[nodiscard]] static json Dns(const std::string& host_ip = "") {
    return Publish({Port(5353, 53, "udp", host_ip)}, DualStack());
  }

  Node* first_;
};

TEST_F(Flows, ReachTheAllocationOnceItsPortIsPublished) {
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

TEST_F(Flows, EndWithTheirAllocation) {
  Attach(Dns(), As("dns", container()));
  Serve(container(), Protocol::kUdp, {"172.26.64.3", "fd00:26::3"}, 53, "dns");
  EXPECT_EQ(Talk(kHostIp4, 5353), "dns");
  EXPECT_EQ(Talk(kHostIp6, 5353), "dns");
  ASSERT_THAT(To(5353), SizeIs(2));
  Detach(DualStack(), As("dns", container()));  // its record knows the port
  EXPECT_THAT(To(5353), IsEmpty());
}

TEST_F(Flows, ReachTheNextAllocationThatPublishesThePort) {
  Attach(Dns(), As("dns", container()));
  Serve(container(), Protocol::kUdp, {"172.26.64.3"}, 53, "old");
  EXPECT_EQ(Talk(kHostIp4, 5353), "old");
  Detach(Dns(), As("dns", container()));
  const Node& next = AddContainer("next");
  Attach(Dns(), As("next", next));
  Serve(next, Protocol::kUdp, {"172.26.64.4"}, 53, "new");
  EXPECT_EQ(Talk(kHostIp4, 5353), "new");
}

TEST_F(Flows, StayIfPortAddressOrProtocolDiffers) {
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

TEST_F(Flows, StayIfTheyUseTheSamePortElsewhere) {
  Serve(outside(), Protocol::kUdp, {kOutsideIp4, kOutsideIp6}, 5353, "elsewhere");
  const Node& routed = AddContainer("routed");
  Attach(DualStack({{"ipMasq", false}}), As("routed", routed));
  for (const Call& call : {Call{.to = kOutsideIp4}, Call{.to = kOutsideIp6}}) {
    Call udp = call;
    udp.protocol = Protocol::kUdp;
    udp.port = 5353;
    ASSERT_TRUE(Ask(*first_, udp)) << call.to;
  }
  ASSERT_EQ(UdpText(routed, kOutsideIp4, 5353), "elsewhere");
  const std::vector<std::string> before = IdsTo(5353);
  ASSERT_THAT(before, SizeIs(3));

  Attach(Dns(), As("dns", container()));
  EXPECT_EQ(IdsTo(5353), before) << "after ADD";
  Detach(Dns(), As("dns", container()));
  EXPECT_EQ(IdsTo(5353), before) << "after DEL";
}

// The other ADD's undo takes back only what it has put in force.
TEST_F(Flows, StayIfAnAddForTheirPortIsRefused) {
  Attach(Dns(), As("dns", container()));
  Serve(container(), Protocol::kUdp, {"172.26.64.3"}, 53, "dns");
  EXPECT_EQ(Talk(kHostIp4, 5353), "dns");
  const std::vector<std::string> before = IdsTo(5353);
  ASSERT_THAT(before, SizeIs(1));

  EXPECT_THAT(RunPlugin("ADD", Dns(), As("late", AddContainer("late"))), Fails(102));

  EXPECT_EQ(IdsTo(5353), before);
}

TEST_F(Flows, WorkAfterACheckIfTheyBeganWithoutAnElement) {
  const json added = Attach(Dns(), As("dns", container()));
  Serve(container(), Protocol::kUdp, {"172.26.64.3"}, 53, "dns");
  host().Must(Words("nft delete element inet nomad-bridge port4 { udp . 5353 }"));
  EXPECT_EQ(Talk(kHostIp4, 5353), "");

  MustCheck(Dns(), added, As("dns", container()));

  EXPECT_EQ(Talk(kHostIp4, 5353), "dns");
}

TEST_F(Flows, WorkAfterARepairIfTheyBeganWithoutTheRules) {
  const json added = Attach(Dns(), As("dns", container()));
  Serve(container(), Protocol::kUdp, {"172.26.64.3", "fd00:26::3"}, 53, "dns");
  Serve(outside(), Protocol::kUdp, {kOutsideIp4, kOutsideIp6}, 9999, "elsewhere");
  const auto seen_as = [&](const std::string& to) {
    return Ask(container(),
               {.protocol = Protocol::kUdp, .to = to, .port = 9999, .from_port = 40000})
        .value_or(Reply{})
        .seen_as;
  };
  DeleteOurTable();
  EXPECT_EQ(Talk(kHostIp4, 5353), "");
  EXPECT_EQ(Talk(kHostIp6, 5353), "");
  EXPECT_EQ(seen_as(kOutsideIp4), "172.26.64.3");
  EXPECT_EQ(seen_as(kOutsideIp6), "fd00:26::3");

  // Another's ADD repairs all of them.
  Attach(DualStack(), As("later", AddContainer("later")));

  EXPECT_EQ(Talk(kHostIp4, 5353), "dns");
  EXPECT_EQ(Talk(kHostIp6, 5353), "dns");
  EXPECT_EQ(seen_as(kOutsideIp4), kHostIp4);
  EXPECT_EQ(seen_as(kOutsideIp6), kHostIp6);
}

TEST_F(Flows, AreNotInterruptedByARepair) {
  Attach(Dns(), As("dns", container()));
  Serve(container(), Protocol::kUdp, {"172.26.64.3", "fd00:26::3"}, 53, "dns");
  ASSERT_EQ(Talk(kHostIp4, 5353), "dns");
  ASSERT_EQ(Talk(kHostIp6, 5353), "dns");
  const std::vector<std::string> before = IdsTo(5353);
  DeleteOurTable();

  Attach(DualStack(), As("later", AddContainer("later")));

  EXPECT_EQ(IdsTo(5353), before);
}

TEST_F(Flows, CostNoExtraCallsForManyPorts) {
  const auto calls = [&](const std::string& protocol) {
    std::vector<json> ports;
    for (int port = 10'000; port < 10'200; ++port) {
      ports.push_back(Port(port, 80, protocol));
    }
    const Killing added = RunKilledAt(PluginCommand("ADD", Publish(ports, DualStack()).dump()), 0);
    EXPECT_EQ(added.outcome.exit_code, 0) << added.outcome;
    return added.calls;
  };
  static_cast<void>(calls("tcp"));  // the next ones replace an earlier attachment, too
  const int tcp = calls("tcp");
  EXPECT_LT(calls("udp"), tcp + 20);
}

TEST_F(Flows, StayIfTheyUseTheSamePortElsewhereInIpv6) {
  // Routed without a translation, as between two networks of the node's own.
  const std::string made = " -p udp -t 300 --sport 9 --dport 443 -s 2001:db8:5::1 -d ";
  host().Must(Words(Cat("conntrack -I -u SEEN_REPLY", made, "2001:db8:6::1")));
  host().Must(Words(Cat("conntrack -I", made, kHostIp6)));

  Attach(Publish({Port(443, 443, "udp")}, DualStack()));

  EXPECT_THAT(To(443), ElementsAre(HasSubstr("dst=2001:db8:6::1")));
}

// ---- what comes for the former owner of an address is not the next one's

// By a published port, and as answers to what the former owner has asked.
TEST_F(Flows, EndWithTheOwnerOfTheirAddress) {
  const json config = Publish({Port(8053, 53, "udp")}, DualStack());
  Attach(config);
  const Server server = Server::Start(container(), Protocol::kUdp, "::", 53, "former");
  const Server far = Server::Start(outside(), Protocol::kUdp, "::", 9000, "far");
  for (const char* const to : {kHostIp4, kHostIp6}) {
    ASSERT_EQ(Talk(to, 8053), "former");
  }
  ASSERT_TRUE(
      Ask(container(),
          {.protocol = Protocol::kUdp, .to = kOutsideIp4, .port = 9000, .from_port = 5000}));
  ASSERT_THAT(To(8053), SizeIs(2));
  ASSERT_THAT(To(9000), SizeIs(1));

  Detach(config);

  EXPECT_THAT(To(8053), IsEmpty());
  EXPECT_THAT(To(9000), IsEmpty());
}

// One of a small range is soon another's; one that is asked for may be the next minute.
TEST_F(Flows, EndBeforeTheirIpv6AddressGetsANewOwner) {
  json small = DualStack();
  small["ipam"]["ranges"][1][0]["rangeEnd"] = "fd00:26::ff";
  const json asking = DualStack({{"runtimeConfig", {{"ips", {"fd00:26::9"}}}}});
  const Server far = Server::Start(outside(), Protocol::kUdp, "::", 9000, "far");
  const Call call{.protocol = Protocol::kUdp, .to = kOutsideIp6, .port = 9000, .from_port = 5000};
  Attach(small);
  ASSERT_TRUE(Ask(container(), call));
  ASSERT_THAT(To(9000), SizeIs(1));
  Detach(small);
  EXPECT_THAT(To(9000), IsEmpty());

  Attach(asking);
  ASSERT_TRUE(Ask(container(), call));
  Detach(asking);
  ASSERT_THAT(To(9000), SizeIs(1));
  Attach(asking, As("next", AddContainer("next")));
  EXPECT_THAT(To(9000), IsEmpty());
}

TEST_F(Flows, StayIfANeighbourReleasesItsAddress) {
  Node& neighbour = AddContainer("neighbour");
  Attach(DualStack(), As("neighbour", neighbour));
  Attach(DualStack());
  const Server far = Server::Start(outside(), Protocol::kUdp, "::", 9000, "far");
  ASSERT_TRUE(Ask(neighbour, {.protocol = Protocol::kUdp, .to = kOutsideIp4, .port = 9000}));
  const std::vector<std::string> before = IdsTo(9000);

  Detach(DualStack());

  EXPECT_EQ(IdsTo(9000), before);
}

}  // namespace
}  // namespace nomad_bridge::test
