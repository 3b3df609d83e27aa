// The bridge: made, adopted, refused; its address, MAC, MTU and modes.
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class HostBridge : public World {
 protected:
  json Bridge(const std::string& name = "nomad") { return LinkOn(host(), name); }
  std::string BridgeMac() { return Bridge().at("address"); }

  void MakeBridge(const std::string& name = "nomad") {
    host().Must({"ip", "link", "add", name, "type", "bridge"});
    host().Must({"ip", "link", "set", name, "up"});
  }
  // A port of somebody else's, with a MAC below (or above) all others.
  void PlugIn(const std::string& mac) {
    host().Must({"ip", "link", "add", "other", "address", mac, "type", "veth"});
    host().Must({"ip", "link", "set", "other", "master", "nomad", "up"});
  }
  void PullOut() { host().Must({"ip", "link", "del", "other"}); }

  // Under an emulated kernel everything takes long.
  static constexpr std::chrono::milliseconds kSecond{1000};
  static std::chrono::milliseconds TimeOf(const std::function<void()>& act) {
    const auto begin = std::chrono::steady_clock::now();
    act();
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                 begin);
  }
};

TEST_F(HostBridge, IsCreatedUpWithTheGatewaysAddress) {
  Attach(Config());

  EXPECT_EQ(At(Bridge(), "/linkinfo/info_kind"), "bridge");
  EXPECT_THAT(Bridge().at("flags"), Contains("UP"));
  EXPECT_THAT(AddressesOn(host(), "nomad"), ElementsAre("172.26.64.1/20"));
  EXPECT_EQ(PortsOf("nomad").size(), 1U);
}

TEST_F(HostBridge, IsCreatedWithoutMulticastSnoopingWhichMayBeTurnedOn) {
  const json result = Attach(Config());
  EXPECT_EQ(At(Bridge(), "/linkinfo/info_data/mcast_snooping"), 0);

  host().Must(Words("ip link set nomad type bridge mcast_snooping 1"));
  MustCheck(Config(), result);
  Attach(Config(), As("later", AddContainer("later")));
  EXPECT_EQ(At(Bridge(), "/linkinfo/info_data/mcast_snooping"), 1);
}

TEST_F(HostBridge, HasTheNameThatTheConfigSays) {
  Attach(Config(R"({"bridge": "br.7@x"})"));

  EXPECT_EQ(PortsOf("br.7@x").size(), 1U);
  EXPECT_TRUE(Bridge().is_null());
}

TEST_F(HostBridge, HasNoAddressAndDoesNotForwardWithoutAGateway) {
  host().Must(Words("ip link add nomad type bridge"));
  const json result = Attach(Config(R"({"isGateway": false})"));

  EXPECT_THAT(AddressesOn(host(), "nomad"), ElementsAre());
  EXPECT_EQ(host().Sysctl("net/ipv4/ip_forward"), "0");
  EXPECT_EQ(RoutesTo(container(), "default"), json::array());
  EXPECT_EQ(At(result, "/routes"), json());
}

TEST_F(HostBridge, IsAdoptedWithItsPortsAndItsMacIfItExists) {
  MakeBridge();
  PlugIn("02:00:00:00:00:05");
  const std::string mac = BridgeMac();

  const json result = Attach(Config());

  EXPECT_EQ(PortsOf("nomad").size(), 2U);
  EXPECT_EQ(BridgeMac(), mac);
  EXPECT_EQ(At(result, "/interfaces/0/mac"), mac);
  EXPECT_THAT(AddressesOn(host(), "nomad"), ElementsAre("172.26.64.1/20"));
}

TEST_F(HostBridge, IsSetUpIfItExistsDown) {
  host().Must({"ip", "link", "add", "nomad", "type", "bridge"});
  const std::string mac = BridgeMac();

  Attach(Config());

  EXPECT_EQ(BridgeMac(), mac);
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
}

// As when many first ADDs race, but at every moment there is.
TEST_F(HostBridge, IsAdoptedWheneverItAppearsDuringAnAdd) {
  const Command add = PluginCommand("ADD", Config().dump());
  int nth = 0;
  for (bool was_early = true; was_early;) {
    ASSERT_LT(nth, 1000);
    was_early = false;
    const Killing disturbed = RunDisturbedAt(add, ++nth, [&] {
      const Outcome made = host().Run({"ip", "link", "add", "nomad", "type", "bridge"});
      was_early = made.exit_code == 0;
    });

    ASSERT_EQ(disturbed.outcome.exit_code, 0) << "call " << nth << ": " << disturbed.outcome;
    EXPECT_THAT(AddressesOn(host(), "nomad"), ElementsAre("172.26.64.1/20"));
    EXPECT_EQ(PortsOf("nomad").size(), 1U);
    Detach(Config());
    host().Must({"ip", "link", "del", "nomad"});
  }
  EXPECT_GT(nth, 3) << "the bridge was there from the start";
}

// The kernel's default forward delay is 15 s, which a new port waits twice.
TEST_F(HostBridge, IsNotWaitedForUntilSpanningTreeForwards) {
  MakeBridge();
  UseOnce(DualStack());
  const auto usual = TimeOf([&] { UseOnce(DualStack()); });
  host().Must(Words("ip link set nomad type bridge stp_state 1"));

  EXPECT_LT(TimeOf([&] { MustCheck(DualStack(), Attach(DualStack())); }), usual * 3 + kSecond);

  EXPECT_NE(At(PortsOf("nomad"), "/0/linkinfo/info_slave_data/state"), "forwarding");
}

TEST_F(HostBridge, CarriesTrafficOnceSpanningTreeForwards) {
  MakeBridge();
  host().Must(Words("ip link set nomad type bridge stp_state 1 forward_delay 200"));

  Attach(DualStack());

  EXPECT_TRUE(Soon([&] { return Ping(container(), "172.26.64.1"); }));
  EXPECT_TRUE(Ping(container(), "fd00:26::1"));
}

TEST_F(HostBridge, IsRepairedWithoutWaitingForSpanningTree) {
  const json result = Attach(Config());
  const auto usual = TimeOf([&] { MustCheck(Config(), result); });
  host().Must(Words("ip link delete nomad"));
  MakeBridge();
  host().Must(Words("ip link set nomad type bridge stp_state 1"));

  EXPECT_LT(TimeOf([&] { MustCheck(Config(), result); }), usual * 3 + kSecond);
}

TEST_F(HostBridge, KeepsItsMacWhenPortsComeAndGo) {
  Attach(Config());
  const std::string mac = BridgeMac();

  PlugIn("02:00:00:00:00:01");
  EXPECT_EQ(BridgeMac(), mac);
  PullOut();
  EXPECT_EQ(BridgeMac(), mac);
  Detach(Config());
  EXPECT_EQ(BridgeMac(), mac);
}

TEST_F(HostBridge, KeepsItsMacAlsoIfItWasAdopted) {
  MakeBridge();
  PlugIn("02:00:00:00:00:05");
  Attach(Config());
  const std::string mac = BridgeMac();

  PullOut();
  EXPECT_EQ(BridgeMac(), mac);
  PlugIn("00:00:5e:00:00:01");
  EXPECT_EQ(BridgeMac(), mac);
  EXPECT_THAT(host().Must(Words("bridge fdb show br nomad")),
              HasSubstr(Cat(mac, " dev nomad master nomad permanent")))
      << "it accepts these frames";
  Detach(Config());
  EXPECT_EQ(BridgeMac(), mac);
}

TEST_F(HostBridge, GetsTheNetworksAddressWithForceAddress) {
  MakeBridge();
  host().Must({"ip", "address", "add", "10.9.9.1/24", "dev", "nomad"});

  Attach(Config(R"({"forceAddress": true})"));

  EXPECT_THAT(AddressesOn(host(), "nomad"), ElementsAre("172.26.64.1/20"));
}

TEST_F(HostBridge, IsRefusedForAnotherAddressWithoutForceAddress) {
  MakeBridge();
  host().Must({"ip", "address", "add", "10.9.9.1/24", "dev", "nomad"});

  EXPECT_THAT(MustRefuse(102, Config(R"({"forceAddress": false})")),
              AllOf(Msg(HasSubstr("10.9.9.1/24")), Details(HasSubstr("forceAddress"))));
}

TEST_F(HostBridge, KeepsIpv6AddressesThatAreNotInTheWay) {
  MakeBridge();
  host().Must({"ip", "address", "add", "2001:db8:7::1/64", "dev", "nomad", "nodad"});
  host().Must({"ip", "address", "add", "fd00:26::ff/64", "dev", "nomad", "nodad"});

  Attach(DualStack({{"forceAddress", true}}));

  EXPECT_THAT(AddressesOn(host(), "nomad"),
              UnorderedElementsAre("172.26.64.1/20", "fd00:26::1/64", "2001:db8:7::1/64"));
}

TEST_F(HostBridge, KeepsTheGatewayOfAnotherNetworkThatUsesIt) {
  Attach(Config());
  Node& second = AddContainer("second");

  Attach(Config(R"({"name": "other", "ipam": {"subnet": "10.77.0.0/24"}})"), As("alloc-2", second));

  EXPECT_THAT(AddressesOn(host(), "nomad"), UnorderedElementsAre("172.26.64.1/20", "10.77.0.1/24"));
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
  EXPECT_TRUE(Ping(second, "10.77.0.1"));
}

// Whether the first network has a container just then, or not.
TEST_F(HostBridge, IsSharedWithAnotherNetworkWithOrWithoutContainers) {
  const json second = Config(R"({"name": "other", "ipam": {"subnet": "10.77.0.0/24"}})");
  json strict = second;
  strict["forceAddress"] = false;
  UseOnce(Config());
  Attach(strict);
  EXPECT_THAT(AddressesOn(host(), "nomad"), UnorderedElementsAre("172.26.64.1/20", "10.77.0.1/24"));
  Detach(strict);
  host().Must(Words("ip address delete 10.77.0.1/24 dev nomad"));

  Attach(second);
  EXPECT_THAT(AddressesOn(host(), "nomad"), UnorderedElementsAre("172.26.64.1/20", "10.77.0.1/24"));
  Detach(second);
  json renumbered = second;
  renumbered["ipam"]["subnet"] = "10.78.0.0/24";
  Attach(renumbered);
  EXPECT_THAT(AddressesOn(host(), "nomad"), UnorderedElementsAre("172.26.64.1/20", "10.78.0.1/24"));
}

TEST_F(HostBridge, GivesItsMtuToAVethWithoutOne) {
  for (const int mtu : {9000, 1450}) {
    const std::string name = Cat("br", mtu);
    host().Must(Words(Format("ip link add up{} mtu {} type veth", mtu, mtu)));
    host().Must(Words(Format("ip link add {} up type bridge", name)));
    host().Must(Words(Format("ip link set up{} up master {}", mtu, name)));
    Node& node = AddContainer(name);
    const json config = Config({{"name", name},
                                {"bridge", name},
                                {"ipam", {{"subnet", Format("10.{}.0.0/24", mtu / 100)}}}});
    const json result = Attach(config, As(name, node));
    EXPECT_EQ(LinkOn(node, "eth0").at("mtu"), mtu);
    EXPECT_EQ(LinkOn(host(), HostVethOf(result)).at("mtu"), mtu);
    EXPECT_EQ(LinkOn(host(), name).at("mtu"), mtu);
  }
  Attach(Config());
  EXPECT_EQ(LinkOn(container(), "eth0").at("mtu"), 1500);
}

TEST_F(HostBridge, IsRefusedIfItIsALinkOfAnotherKind) {
  host().Must({"ip", "link", "add", "nomad", "type", "veth"});

  EXPECT_THAT(MustRefuse(7, Config()),
              AllOf(Msg(HasSubstr("'nomad'")), Details(HasSubstr("'veth'"))));
}

TEST_F(HostBridge, IsPromiscuousOnlyIfAsked) {
  Attach(Config());
  EXPECT_THAT(Bridge().at("flags"), Not(Contains("PROMISC")));

  Attach(Config(R"({"promiscMode": true})"), As("alloc-2", AddContainer("second")));

  EXPECT_THAT(Bridge().at("flags"), Contains("PROMISC"));
  const json port = PortsOf("nomad").at(1);
  EXPECT_EQ(At(port, "/linkinfo/info_slave_data/hairpin"), false) << port;
}

TEST_F(HostBridge, StaysWhenTheLastAllocationIsRemoved) {
  Attach(Config());
  const json before = Bridge();
  Detach(Config());

  EXPECT_EQ(Bridge().at("ifindex"), before.at("ifindex"));
  EXPECT_EQ(PortsOf("nomad").size(), 0U);
}

}  // namespace
}  // namespace nomad_bridge::test
