// Ports of bridges: isolation and locks, with traffic; and the way out. What a kernel cannot do is
// tried with ip(8) and bridge(8): then ours must say so.

#include "tests/kernel/rtnl_world.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

const Mac kHonestMac = Mac::Parse("02:00:00:00:00:0a").value();
const Mac kOtherMac = Mac::Parse("02:00:00:00:00:0b").value();
const Mac kFalseMac = Mac::Parse("02:00:00:00:00:0f").value();

class RtnlBridge : public RtnlWorld {
 protected:
  // 'br0' with 10.0.0.1, and the containers 'container' (port 'port-a', 10.0.0.10) and 'other'
  // (port 'port-b', 10.0.0.11).
  RtnlBridge() {
    Bridge();
    host().Must({"ip", "address", "add", "10.0.0.1/24", "dev", "br0"});
    Attach(container(), "port-a", "10.0.0.10", kHonestMac);
    Attach(other_, "port-b", "10.0.0.11", kOtherMac);
  }

  [[nodiscard]] static bool Flag(const Node& node, const std::string& port, const char* name) {
    return LinkOn(node, port).at("linkinfo").at("info_slave_data").at(name).get<bool>();
  }

  // Empties all neighbour tables, so that a broadcast precedes the next packet.
  void ForgetNeighbours() {
    for (const Node* node : {&host(), &container(), &other_}) {
      node->Must({"ip", "neighbour", "flush", "all"});
    }
  }

  // "bridge fdb show" of a port, as JSON.
  [[nodiscard]] json Forwarding(const std::string& port) {
    return host().Json({"bridge", "-j", "fdb", "show", "brport", port});
  }

  // Locks port 'port-a' to the honest MAC. False on a kernel that cannot, if that is said.
  [[nodiscard]] bool Lock() {
    host().Must({"bridge", "link", "set", "dev", "port-b", "locked", "on"});
    const bool can =
        host().Must({"bridge", "-d", "link", "show", "dev", "port-b"}).find("locked on") !=
        std::string::npos;
    if (can) {
      host().Must({"bridge", "link", "set", "dev", "port-b", "locked", "off"});
      net_.LockPort(Port("port-a"), kHonestMac);
    } else {
      const Error error = Thrown([&] { net_.LockPort(Port("port-a"), kHonestMac); });
      EXPECT_EQ(error.msg(), Cat("cannot lock bridge port 'port-a' to ", kHonestMac));
      EXPECT_EQ(error.details(),
                "'macspoofchk' needs locked bridge ports, which Linux has since 5.18");
    }
    return can;
  }

  [[nodiscard]] bool IsLocked() { return net_.IsPortLocked(Port("port-a"), kHonestMac); }

  Node& other_ = AddContainer("other");
};

class RtnlPort : public RtnlBridge {};

class RtnlRouteLookup : public RtnlBridge {
 protected:
  [[nodiscard]] std::optional<int> WayTo(const std::string& address) {
    return net_.LookupOutputInterface(Ip::Parse(address).value());
  }
};

TEST_F(RtnlPort, HasHairpinModeAndIsolationWritten) {
  net_.Change(Port("port-a"), {.port = PortFlags{.hairpin = true, .isolated = true}});
  EXPECT_TRUE(Flag(host(), "port-a", "hairpin"));
  EXPECT_TRUE(Flag(host(), "port-a", "isolated"));
  EXPECT_TRUE(Port("port-a").port.hairpin);
  EXPECT_TRUE(Port("port-a").port.isolated);

  net_.Change(Port("port-a"), {.port = PortFlags{.hairpin = true}});
  EXPECT_TRUE(Flag(host(), "port-a", "hairpin"));
  EXPECT_FALSE(Flag(host(), "port-a", "isolated"));
  EXPECT_FALSE(Port("port-a").port.isolated);

  net_.Change(Port("port-a"), {.port = PortFlags{.isolated = true}});
  EXPECT_FALSE(Flag(host(), "port-a", "hairpin"));
  EXPECT_TRUE(Flag(host(), "port-a", "isolated"));
}

TEST_F(RtnlBridge, KeepsAMacThatIsFixedAndAcceptsItsFrames) {
  EXPECT_TRUE(Port("br0").has_id);
  const rtnl::Link bridge = Bridge("br1");
  EXPECT_FALSE(bridge.has_id);

  net_.FixMac(bridge);
  net_.FixMac(bridge);

  // A port with a MAC below it, which it would take on.
  host().Must({"ip", "link", "add", "low", "address", "02:00:00:00:00:01", "type", "veth"});
  host().Must({"ip", "link", "set", "low", "master", "br1"});
  EXPECT_EQ(LinkOn(host(), "br1").at("address"), bridge.mac.Text());
  EXPECT_THAT(host().Must({"bridge", "fdb", "show", "br", "br1"}),
              HasSubstr(Cat(bridge.mac, " dev br1 master br1 permanent")));
}

TEST_F(RtnlPort, ReachesTheBridgeButNoIsolatedPortIfIsolated) {
  EXPECT_TRUE(Ping(container(), "10.0.0.11"));

  net_.Change(Port("port-a"), {.port = PortFlags{.isolated = true}});
  net_.Change(Port("port-b"), {.port = PortFlags{.isolated = true}});

  EXPECT_TRUE(Ping(container(), "10.0.0.1"));
  EXPECT_TRUE(Ping(other_, "10.0.0.1"));
  EXPECT_FALSE(Ping(container(), "10.0.0.11"));
}

TEST_F(RtnlPort, IsLockedToItsMac) {
  EXPECT_FALSE(IsLocked());
  if (!Lock()) {
    return;
  }
  EXPECT_TRUE(Flag(host(), "port-a", "locked"));
  EXPECT_FALSE(Flag(host(), "port-a", "learning"));
  EXPECT_TRUE(Port("port-a").locked);
  EXPECT_TRUE(IsLocked());
  EXPECT_FALSE(net_.IsPortLocked(Port("port-a"), kFalseMac));
  EXPECT_FALSE(Port("port-b").locked);

  net_.LockPort(Port("port-a"), kHonestMac);
  EXPECT_TRUE(IsLocked());
}

TEST_F(RtnlPort, LockIsFoundIncompleteAndRepaired) {
  if (!Lock()) {
    return;
  }
  for (const char* damage : {"bridge link set dev port-a locked off",
                             "bridge link set dev port-a learning on",
                             "bridge fdb add 02:00:00:00:00:0f dev port-a master dynamic",
                             "bridge fdb delete 02:00:00:00:00:0a dev port-a master"}) {
    host().Must({"sh", "-c", damage});
    EXPECT_FALSE(IsLocked()) << damage;

    net_.LockPort(Port("port-a"), kHonestMac);
    EXPECT_TRUE(IsLocked()) << damage;
  }
}

TEST_F(RtnlPort, LockLeavesNothingWhenThePortGoes) {
  if (!Lock()) {
    return;
  }
  host().Must({"ip", "link", "delete", "port-a"});
  EXPECT_EQ(host().Must({"bridge", "fdb", "show", "br", "br0"}).find(kHonestMac.Text()),
            std::string::npos);
}

// With hairpin mode off and on.
class RtnlPortLock : public RtnlBridge, public ::testing::WithParamInterface<bool> {
 protected:
  RtnlPortLock() { net_.Change(Port("port-a"), {.port = PortFlags{.hairpin = GetParam()}}); }

  void Spoof() {
    container().Must({"ip", "link", "set", "eth0", "address", kFalseMac.Text()});
    ForgetNeighbours();
  }

  // Permanent neighbour entries: nothing is broadcast.
  void Introduce(const Mac& mac) {
    container().Must(Words(Cat("ip neighbour replace 10.0.0.11 lladdr ", kOtherMac, " dev eth0")));
    other_.Must(Words(Cat("ip neighbour replace 10.0.0.10 lladdr ", mac, " dev eth0")));
  }
};

INSTANTIATE_TEST_SUITE_P(Bridge, RtnlPortLock, ::testing::Bool(), [](const auto& hairpin) {
  return hairpin.param ? "HairpinOn" : "HairpinOff";
});

TEST_P(RtnlPortLock, PassesTheContainersOwnFramesBothWays) {
  if (!Lock()) {
    return;
  }
  ForgetNeighbours();
  EXPECT_TRUE(Ping(container(), "10.0.0.11"));
  ForgetNeighbours();
  EXPECT_TRUE(Ping(other_, "10.0.0.10"));
  EXPECT_TRUE(Ping(host(), "10.0.0.10"));

  Introduce(kHonestMac);
  EXPECT_TRUE(Ping(container(), "10.0.0.11"));
}

TEST_P(RtnlPortLock, IsKeptWhileTheLinkIsDown) {
  if (!Lock()) {
    return;
  }
  container().Must({"ip", "link", "set", "eth0", "down"});
  container().Must({"ip", "link", "set", "eth0", "up"});

  EXPECT_TRUE(IsLocked());
  EXPECT_TRUE(Ping(container(), "10.0.0.11"));
}

TEST_P(RtnlPortLock, DropsASpoofedBroadcast) {
  Spoof();
  ASSERT_TRUE(Ping(container(), "10.0.0.11")) << "without a lock any MAC will do, and is learned";
  if (!Lock()) {
    return;
  }
  ForgetNeighbours();

  EXPECT_FALSE(Ping(container(), "10.0.0.11"));

  EXPECT_EQ(other_.Must({"ip", "neighbour", "show"}).find(kFalseMac.Text()), std::string::npos)
      << "its question was heard";
  EXPECT_FALSE(Ping(container(), "10.0.0.1")) << "the bridge itself";
}

TEST_P(RtnlPortLock, DropsASpoofedUnicast) {
  Spoof();
  Introduce(kFalseMac);
  ASSERT_TRUE(Soon([&] { return Ping(container(), "10.0.0.11"); }))
      << "without a lock any MAC will do";
  if (!Lock()) {
    return;
  }
  EXPECT_FALSE(Ping(container(), "10.0.0.11"));
}

TEST_P(RtnlPortLock, KeepsAnotherPortFromTakingTheMac) {
  if (!Lock()) {
    return;
  }
  ASSERT_TRUE(Ping(container(), "10.0.0.1"));
  // The other port is not locked: the bridge learns from it, but must keep the static entry.
  other_.Must({"ip", "link", "set", "eth0", "address", kHonestMac.Text()});
  static_cast<void>(Ping(other_, "10.0.0.1"));

  EXPECT_TRUE(IsLocked());
  container().Must({"ip", "neighbour", "flush", "all"});
  EXPECT_TRUE(Ping(container(), "10.0.0.1"));
}

TEST_F(RtnlBridge, FiltersVlansOrNamesTheMissingKernelOption) {
  if (host().Run({"ip", "link", "add", "br1", "type", "bridge", "vlan_filtering", "1"}).exit_code ==
      0) {
    EXPECT_TRUE(net_.CreateBridge("nomad", kBridgeMac, 0, true));
    EXPECT_EQ(LinkOn(host(), "nomad").at("linkinfo").at("info_data").at("vlan_filtering"), 1);
    EXPECT_TRUE(net_.FindLink("nomad")->vlan_filtering);
    EXPECT_FALSE(net_.FindLink("br0")->vlan_filtering);
    return;
  }
  const auto is_said = [](const Error& error) {
    EXPECT_EQ(error.code(), Code::kKernel);
    EXPECT_THAT(error.details(), HasSubstr("'vlan' and 'vlanTrunk' need"));
    EXPECT_THAT(error.details(), HasSubstr("CONFIG_BRIDGE_VLAN_FILTERING"));
  };
  is_said(Thrown([&] { return net_.CreateBridge("nomad", kBridgeMac, 0, true); }));
  EXPECT_TRUE(LinkOn(host(), "nomad").is_null());
  is_said(Thrown([&] { net_.SetPortVlans(Port("port-a"), {.untagged = 7}); }));
  EXPECT_TRUE(net_.Vlans(Port("port-a")).empty());
  EXPECT_TRUE(net_.HasPortVlans(Port("port-a"), {}));
}

TEST_F(RtnlRouteLookup, FindsTheOutputInterface) {
  const int uplink = Port("uplink").index;
  EXPECT_EQ(WayTo("10.0.0.99"), Port("br0").index);
  EXPECT_EQ(WayTo(kOutsideIp4), uplink);
  EXPECT_EQ(WayTo("8.8.8.8"), uplink) << "by the default route";
  EXPECT_EQ(WayTo(kOutsideIp6), uplink);
  EXPECT_EQ(WayTo("2001:db8:ffff::1"), uplink);
  EXPECT_EQ(WayTo("10.0.0.1"), Port("lo").index) << "the host's own";
  EXPECT_EQ(WayTo("127.0.0.1"), Port("lo").index);
}

TEST_F(RtnlRouteLookup, FindsNothingForAnUnreachableAddress) {
  for (const char* type : {"unreachable", "prohibit", "blackhole"}) {
    host().Must({"ip", "route", "add", type, "192.0.2.0/24"});
    host().Must({"ip", "route", "add", type, "2001:db8:2::/64"});
    EXPECT_EQ(WayTo("192.0.2.1"), std::nullopt) << type;
    EXPECT_EQ(WayTo("2001:db8:2::1"), std::nullopt) << type;
    host().Must({"ip", "route", "delete", type, "192.0.2.0/24"});
    host().Must({"ip", "route", "delete", type, "2001:db8:2::/64"});
  }

  host().Must({"ip", "route", "delete", "default"});
  host().Must({"ip", "-6", "route", "delete", "default"});
  EXPECT_EQ(WayTo("192.0.2.1"), std::nullopt);
  EXPECT_EQ(WayTo("2001:db8:2::1"), std::nullopt);
}

}  // namespace
}  // namespace nomad_bridge::test
