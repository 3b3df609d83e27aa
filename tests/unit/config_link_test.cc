#include "tests/support/config.h"
#include "tests/unit/parsed_config.h"

namespace nomad_bridge::test {
namespace {

TEST(LinkConfig, RefusesInvalidAndReservedBridgeNames) {
  const auto names = R"(["", "a/b", "a:b", "a b", "a\t", ".", "..", "sixteen-bytes-xx", "all",
                         "default", "lo", "br%d", "a\u0000"])"_json;
  for (const json& name : names) {
    ExpectInvalid({Cat(R"({"bridge":)", name.dump(), "}"), "'bridge'"});
  }
  EXPECT_EQ(Parsed(R"({"bridge":"fifteen-bytes-x"})").link.bridge, "fifteen-bytes-x");
}

TEST(LinkConfig, HasAnMtuWithLimits) {
  EXPECT_EQ(Parsed(R"({"mtu":0})").link.mtu, 0);
  EXPECT_EQ(Parsed(R"({"mtu":68})").link.mtu, 68);
  EXPECT_EQ(Parsed(R"({"mtu":65535})").link.mtu, 65535);
  EXPECT_EQ(Parsed(R"({"mtu":"auto"})").link.mtu, config::kUplinkMtu);
  for (const char* const text : {R"({"mtu":67})",
                                 R"({"mtu":-1})",
                                 R"({"mtu":65536})",
                                 R"({"mtu":18446744073709551615})",
                                 R"({"mtu":"1400"})"}) {
    ExpectInvalid({text, "'mtu'"});
  }
}

TEST(LinkConfig, HasAnotherLimitOfTheMtuWithIpv6) {
  const char* const ranges =
      R"("ipam":{"ranges":[[{"subnet":"10.0.0.0/24"}],[{"subnet":"fd00::/64"}]]}})";
  EXPECT_EQ(Parsed(Cat(R"({"mtu":1280,)", ranges)).link.mtu, 1280);
  EXPECT_EQ(Parsed(Cat(R"({"mtu":0,)", ranges)).link.mtu, 0);
  const Error error = Refused(Cat(R"({"mtu":1279,)", ranges));
  EXPECT_EQ(error.msg(), "invalid 'mtu': 1279");
  EXPECT_THAT(error.details(), HasSubstr("1280"));
}

TEST(LinkConfig, HasTheMacOfTheStrongestSource) {
  const auto mac_of = [](const std::string& text, const std::string& args) {
    return Parsed(text, args).link.mac.value_or(Mac{}).Text();
  };
  const std::string args = "MAC=02:00:00:00:00:02";
  EXPECT_EQ(mac_of(R"({"mac":"02:00:00:00:00:01"})", ""), "02:00:00:00:00:01");
  EXPECT_EQ(mac_of(R"({"mac":"02:00:00:00:00:01"})", args), "02:00:00:00:00:02");
  EXPECT_EQ(mac_of(R"({"args":{"cni":{"mac":"02:00:00:00:00:03"}}})", args), "02:00:00:00:00:03");
  EXPECT_EQ(
      mac_of(
          R"({"args":{"cni":{"mac":"02:00:00:00:00:03"}},"runtimeConfig":{"mac":"02:00:00:00:00:04"}})",
          args),
      "02:00:00:00:00:04");
  EXPECT_EQ(mac_of(R"({"runtimeConfig":{"mac":""}})", args), "02:00:00:00:00:02")
      << "an empty one is none";
}

TEST(LinkConfig, RefusesMulticastAndZeroMacs) {
  for (const char* const mac :
       {"01:00:5e:00:00:01", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00", "02:00", "x"}) {
    ExpectInvalid({Cat(R"({"mac":")", mac, "\"}"), "'mac'"});
    ExpectInvalid({Cat(R"({"args":{"cni":{"mac":")", mac, "\"}}}"), "'args.cni.mac'"});
    ExpectInvalid({Cat(R"({"runtimeConfig":{"mac":")", mac, "\"}}"), "'runtimeConfig.mac'"});
  }
}

TEST(LinkConfig, HasADefaultGatewayUnlessRoutesOrTheKeyDisableIt) {
  const auto link_of = [](const char* text) { return Parsed(text).link; };
  EXPECT_FALSE(link_of(R"({"ipam":{"routes":[]}})").is_default_gateway);
  EXPECT_TRUE(link_of(R"({"ipam":{"routes":null}})").is_default_gateway);
  EXPECT_TRUE(link_of(R"({"ipam":{"routes":[]},"isDefaultGateway":true})").is_default_gateway);
  EXPECT_FALSE(link_of(R"({"isDefaultGateway":false})").is_default_gateway);
  EXPECT_TRUE(link_of(R"({"isDefaultGateway":false})").is_gateway);
  EXPECT_FALSE(link_of(R"({"isGateway":false})").is_default_gateway);
  EXPECT_FALSE(link_of(R"({"isGateway":false})").is_gateway);
  EXPECT_TRUE(link_of(R"({"isGateway":false,"isDefaultGateway":true})").is_gateway);
}

TEST(LinkConfig, HasNoDefaultHairpinInPromiscuousMode) {
  const config::LinkConfig link = Parsed(R"({"promiscMode":true})").link;
  EXPECT_TRUE(link.promisc_mode);
  EXPECT_FALSE(link.port.hairpin);
  EXPECT_FALSE(Parsed(R"({"promiscMode":true,"hairpinMode":false})").link.port.hairpin);
  EXPECT_FALSE(Parsed(R"({"hairpinMode":false})").link.port.hairpin);
  ExpectInvalid({R"({"promiscMode":true,"hairpinMode":true})", "'promiscMode'"});
}

TEST(LinkConfig, ReadsTheOptionsOfABridgePort) {
  const config::LinkConfig plain = Parsed("{}").link;
  EXPECT_FALSE(plain.port.isolated || plain.port.locked || plain.port.vlans);
  EXPECT_EQ(plain.gateway_ifname, "nomad");

  const config::LinkConfig link = Parsed(R"({"vlan":4094,"portIsolation":true,"macspoofchk":true,
      "preserveDefaultVlan":true,"enabledad":true,
      "vlanTrunk":[{"minID":1,"maxID":4094},{"id":7},{"minID":9,"maxID":9,"id":5}]})")
                                      .link;
  EXPECT_TRUE(link.port.isolated && link.port.locked && link.enable_dad);
  ASSERT_TRUE(link.port.vlans);
  EXPECT_TRUE(link.port.vlans->keep_default);
  EXPECT_EQ(link.port.vlans->untagged, 4094);
  EXPECT_THAT(link.port.vlans->tagged,
              ElementsAre(VlanRange{1, 4094}, VlanRange{7, 7}, VlanRange{9, 9}, VlanRange{5, 5}));
  EXPECT_EQ(link.gateway_ifname, "nomad.4094");
  EXPECT_EQ(link.GatewayVlan(), 4094);
}

TEST(LinkConfig, HasASeparateGatewayOnlyInAVlan) {
  const config::LinkConfig trunk = Parsed(R"({"vlanTrunk":[{"id":7}]})").link;
  EXPECT_TRUE(trunk.port.vlans);
  EXPECT_EQ(trunk.gateway_ifname, "nomad");
  const config::LinkConfig no_gateway =
      Parsed(R"({"vlan":7,"isGateway":false,"isDefaultGateway":false})").link;
  EXPECT_EQ(no_gateway.gateway_ifname, "nomad");
  EXPECT_FALSE(no_gateway.GatewayVlan());
  EXPECT_EQ(Parsed(R"({"vlan":1})").link.gateway_ifname, "nomad") << "where the bridge itself is";
  EXPECT_FALSE(Parsed(R"({"vlan":0,"vlanTrunk":[]})").link.port.vlans);
}

TEST(LinkConfig, RefusesImpossibleVlans) {
  ExpectEachInvalid({
      {R"({"vlan":-1})", "'vlan': -1"},
      {R"({"vlan":4095})", "'vlan': 4095"},
      {R"({"vlan":"5"})", "'vlan': \"5\""},
      {R"({"vlan":1.5})", "'vlan'"},
      {R"({"vlanTrunk":{}})", "'vlanTrunk'"},
      {R"({"vlanTrunk":[5]})", "'vlanTrunk[0]'"},
      {R"({"vlanTrunk":[{}]})", "'vlanTrunk[0]'"},
      {R"({"vlanTrunk":[{"id":0}]})", "'vlanTrunk[0].id': 0"},
      {R"({"vlanTrunk":[{"id":1},{"id":4095}]})", "'vlanTrunk[1].id': 4095"},
      {R"({"vlanTrunk":[{"id":"5"}]})", "'vlanTrunk[0].id'"},
      {R"({"vlanTrunk":[{"minID":5}]})", "'vlanTrunk[0]'"},
      {R"({"vlanTrunk":[{"maxID":5}]})", "'vlanTrunk[0]'"},
      {R"({"vlanTrunk":[{"maxID":5,"id":6}]})", "'vlanTrunk[0]'"},
      {R"({"vlanTrunk":[{"minID":0,"maxID":5}]})", "'vlanTrunk[0].minID': 0"},
      {R"({"vlanTrunk":[{"minID":5,"maxID":4095}]})", "'vlanTrunk[0].maxID': 4095"},
      {R"({"vlanTrunk":[{"minID":6,"maxID":5}]})", "'vlanTrunk[0].minID': 6"},
      {R"({"bridge":"a-long-name","vlan":1000})", "'vlan': 1000"},
  });
  EXPECT_THAT(Refused(R"({"bridge":"a-long-name","vlan":1000})").details(),
              HasSubstr("'a-long-name.1000'"));
  EXPECT_NO_THROW(
      Parsed(R"({"bridge":"a-long-name","vlan":1000,"isGateway":false,"isDefaultGateway":false})"));
}

TEST(LinkConfig, HasPortOptionsThatAreTrueOrFalse) {
  for (const std::string& key : Words("portIsolation macspoofchk preserveDefaultVlan enabledad "
                                      "disableContainerInterface")) {
    ExpectInvalid({Cat("{\"", key, "\":1}"), Cat("'", key, "': 1")});
    ExpectInvalid({Cat("{\"", key, "\":\"yes\"}"), Cat("'", key, "'")});
  }
}

TEST(LinkConfig, RefusesAddressesForAnInterfaceThatStaysDown) {
  ExpectInvalid({R"({"disableContainerInterface":true})", "'disableContainerInterface': true"});
}

TEST(LinkConfig, MayLeaveABareLinkDown) {
  EXPECT_TRUE(
      ParsedBy("bridge", R"({"disableContainerInterface":true})").link.disable_container_interface);
}

}  // namespace
}  // namespace nomad_bridge::test
