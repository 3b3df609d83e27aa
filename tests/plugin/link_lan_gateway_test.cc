// A gateway's address on a bridge with an uplink: the node takes it only if no machine on the LAN
// has it.
#include "tests/plugin/lan_world.h"
#include "tests/support/frames.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kFreeIp4 = "198.51.100.77";
constexpr const char* kFreeIp6 = "2001:db8:100::77";

// The bridge has no address of the node yet. The machine outside is the LAN's router.
class LanGateway : public LanWorld {
 protected:
  LanGateway() { host().Must(Words("ip address flush dev lan scope global")); }

  static json WithGateways(const std::string& ip4, const std::string& ip6) {
    json config = OnLan({{"isGateway", true}});
    config["ipam"]["ranges"][0][0]["gateway"] = ip4;
    config["ipam"]["ranges"][1][0]["gateway"] = ip6;
    return config;
  }
  static json WithoutIpv6(json config) {
    config["ipam"]["ranges"].erase(1);
    return config;
  }
  static json WithoutIpv4(json config) {
    config["ipam"]["ranges"].erase(0);
    return config;
  }

  [[nodiscard]] static TextMatcher NamesHolder(const std::string& address, const Mac& mac) {
    return AllOf(HasSubstr(address),
                 HasSubstr(mac.Text()),
                 HasSubstr("bridge 'lan'"),
                 HasSubstr("isGateway"));
  }
  [[nodiscard]] TextMatcher NamesRouter(const std::string& address) {
    return NamesHolder(address, MacOf(outside(), "uplink"));
  }
  // Adds or deletes ("add", "delete") the addresses on the router.
  void OnRouter(const std::string& what) {
    outside().Must(Words(Format("ip address {} {}/24 dev uplink", what, kFreeIp4)));
    outside().Must(Words(
        Format("ip address {} {}/64 dev uplink{}", what, kFreeIp6, what == "add" ? " nodad" : "")));
  }
};

TEST_F(LanGateway, IsRefusedTheAddressOfTheLansRouter) {
  const json both = WithGateways(kOutsideIp4, kOutsideIp6);
  const auto forwarding = [&] {
    return std::pair(host().Sysctl("net/ipv4/ip_forward"),
                     host().Sysctl("net/ipv6/conf/all/forwarding"));
  };
  const auto before = forwarding();
  for (const auto& [config, address] : {std::pair(WithoutIpv6(both), kOutsideIp4),
                                        std::pair(WithoutIpv4(both), kOutsideIp6),
                                        std::pair(both, kOutsideIp4)}) {
    EXPECT_THAT(MustRefuse(102, config), Msg(NamesRouter(address)));
    EXPECT_THAT(AddressesOn(host(), "lan"), IsEmpty());
  }
  EXPECT_EQ(forwarding(), before);
}

TEST_F(LanGateway, TakesNoneOfItsAddressesIfOneIsTheRouters) {
  EXPECT_THAT(MustRefuse(102, WithGateways(kFreeIp4, kOutsideIp6)), Msg(NamesRouter(kOutsideIp6)));
  EXPECT_THAT(AddressesOn(host(), "lan"), IsEmpty());
}

TEST_F(LanGateway, IsRefusedUnderTheNameOfTheReferencePluginToo) {
  json config = WithGateways(kOutsideIp4, kOutsideIp6);
  config["ipam"]["type"] = "host-local";
  EXPECT_THAT(RunPlugin("ADD", config.dump(), {}, "bridge"),
              Fails(102, Msg(NamesRouter(kOutsideIp4))));
  EXPECT_THAT(AddressesOn(host(), "lan"), IsEmpty());
}

TEST_F(LanGateway, TakesAddressesThatNobodyHas) {
  Attach(WithGateways(kFreeIp4, kFreeIp6));
  EXPECT_THAT(AddressesOn(host(), "lan"),
              UnorderedElementsAre(Cat(kFreeIp4, "/24"), Cat(kFreeIp6, "/64")));
  EXPECT_TRUE(Ping(outside(), kFreeIp4));
  EXPECT_TRUE(Ping(outside(), kFreeIp6));
}

// Nobody can be asked.
TEST_F(LanGateway, TakesItsAddressesIfTheUplinkHasNoCarrier) {
  outside().Must(Words("ip link set uplink down"));
  Attach(WithGateways(kFreeIp4, kFreeIp6));
  EXPECT_THAT(AddressesOn(host(), "lan"), SizeIs(2));
}

// The bridge is down until the ADD.
TEST_F(LanGateway, AsksAlsoOnABridgeThatWasDown) {
  host().Must(Words("ip link set lan down"));
  EXPECT_THAT(RunPlugin("ADD", WithGateways(kOutsideIp4, kOutsideIp6)),
              Fails(102, Msg(NamesRouter(kOutsideIp4))));
  EXPECT_THAT(AddressesOn(host(), "lan"), IsEmpty());
}

// A router that forwards for others answers ARP on their behalf.
TEST_F(LanGateway, TakesAddressesThatARouterOnlyLeadsTo) {
  outside().SetSysctl("net/ipv4/ip_forward", "1");
  outside().SetSysctl("net/ipv4/conf/uplink/proxy_arp", "1");
  outside().Must(Words("ip link add further type veth peer name end"));
  outside().Must(Words("ip link set further up"));
  outside().Must(Words(Cat("ip route add ", kFreeIp4, "/32 dev further")));
  Attach(WithGateways(kFreeIp4, kFreeIp6));
  EXPECT_THAT(AddressesOn(host(), "lan"), SizeIs(2));
}

// Bridges that we made have the same MAC and addresses on each node.
TEST_F(LanGateway, TakesTheAddressesOfABridgeWithItsOwnMac) {
  OnRouter("add");
  outside().Must(Words(Cat("ip link set uplink address ", MacOf(host(), "lan"))));
  Attach(WithGateways(kFreeIp4, kFreeIp6));
  EXPECT_THAT(AddressesOn(host(), "lan"), SizeIs(2));
}

// What a container claims is no proof: it would block the network for all others.
TEST_F(LanGateway, TakesAddressesThatAContainerClaims) {
  Attach(OnLan({{"sourceCheck", false}, {"name", "first"}}), As("other", other_));
  other_.Must(Words(Cat("ip address add ", kFreeIp4, "/24 dev eth0")));
  other_.Must(Words(Cat("ip address add ", kFreeIp6, "/64 dev eth0 nodad")));
  ASSERT_TRUE(Ping(outside(), kFreeIp4));
  ASSERT_TRUE(Ping(outside(), kFreeIp6));
  Attach(WithGateways(kFreeIp4, kFreeIp6));
  EXPECT_THAT(AddressesOn(host(), "lan"), SizeIs(2));
}

// Somebody deletes the addresses of a running network, and another machine takes them.
TEST_F(LanGateway, IsNotTakenBackByARepair) {
  const json config = WithGateways(kFreeIp4, kFreeIp6);
  const json result = Attach(config);
  host().Must(Words("ip address flush dev lan scope global"));
  OnRouter("add");
  const auto named = AllOf(NamesRouter(kFreeIp4), NamesRouter(kFreeIp6));
  const Snapshot before = TakeHostSnapshot();
  EXPECT_THAT(RunLine("reconcile"), Exits(1, Err(named)));
  EXPECT_THAT(RunLine("reconcile -n"), Exits(1, Out(named)));
  EXPECT_THAT(MustCheck(config, result), Err(named));
  EXPECT_THAT(RunLine("doctor bridge.intact -json"), Exits(1, Out(named)));
  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));

  OnRouter("delete");
  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  EXPECT_THAT(AddressesOn(host(), "lan"), SizeIs(2));
  EXPECT_TRUE(Ping(outside(), kFreeIp4));
  EXPECT_TRUE(Ping(outside(), kFreeIp6));
}

TEST_F(LanGateway, IsNotTakenByUp) {
  fs::create_directories("/run/configs");
  std::ofstream("/run/configs/lan.conflist")
      << json{{"cniVersion", "1.1.0"},
              {"name", "lan"},
              {"plugins", {WithGateways(kOutsideIp4, kOutsideIp6)}}};
  EXPECT_THAT(RunLine("up /run/configs"), Exits(1, Err(NamesRouter(kOutsideIp4))));
  EXPECT_THAT(RunLine("up -n /run/configs"),
              Exits(1, Out(AllOf(NamesRouter(kOutsideIp4), NamesRouter(kOutsideIp6)))));
  EXPECT_THAT(AddressesOn(host(), "lan"), IsEmpty());
}

}  // namespace
}  // namespace nomad_bridge::test
