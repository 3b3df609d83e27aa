#include "tests/unit/parsed_config.h"

namespace nomad_bridge::test {
namespace {

TEST(ParseConfig, MakesACompleteNetworkWithoutOptions) {
  const config::Config config = Parsed(R"({"name":"nomad"})");
  EXPECT_EQ(config.link.bridge, "nomad");
  EXPECT_EQ(config.link.mtu, 0);
  EXPECT_FALSE(config.link.mac);
  EXPECT_TRUE(config.link.is_gateway);
  EXPECT_TRUE(config.link.is_default_gateway);
  EXPECT_EQ(config.link.force_address, config::ForceAddress::kOnOwnBridge);
  EXPECT_TRUE(config.link.port.hairpin);
  EXPECT_FALSE(config.link.promisc_mode);
  EXPECT_EQ(config.ipam.data_dir, "/var/run/cni");
  ASSERT_THAT(config.ipam.ranges, SizeIs(1));
  EXPECT_EQ(config.ipam.ranges[0].at(0).subnet, Cidr::Parse("172.26.64.0/20"));
  EXPECT_THAT(config.ipam.routes, IsEmpty());
  EXPECT_TRUE(config.rules.ip_masq);
  EXPECT_TRUE(config.rules.snat);
  EXPECT_FALSE(config.rules.masq_all);
  EXPECT_EQ(config.rules.forward_hook, (firewall::ForwardHook{"NOMAD-ADMIN", 12, false}));
  EXPECT_THAT(config.rules.ports, IsEmpty());
  EXPECT_TRUE(config.dns.empty());
  EXPECT_TRUE(config.repair_on_check);
  EXPECT_FALSE(config.prev_result);
}

TEST(ParseConfig, ReadsKeysInAnyLetterCaseAndTreatsNullAsAbsent) {
  const config::Config config =
      Parsed(R"({"BRIDGE":"br7","IPAM":{"DataDir":"/x"},"mtu":null,"dns":null,"prevResult":null})");
  EXPECT_EQ(config.link.bridge, "br7");
  EXPECT_EQ(config.ipam.data_dir, "/x");
  EXPECT_EQ(config.link.mtu, 0);
}

TEST(ParseConfig, RefusesKeysInTwoLetterCasesOnlyWhereItReadsThem) {
  ExpectEachInvalid(
      {
          {R"({"mtu":1500,"MTU":1500})", "duplicate key 'mtu'"},
          {R"({"ipam":{"dataDir":"/a","datadir":"/a"}})", "duplicate key 'ipam.dataDir'"},
          {R"({"args":{"cni":{"labels":[{"key":"a","Key":"b","value":"c"}]}}})",
           "duplicate key 'args.cni.labels[0].key'"},
          {R"({"runtimeConfig":{"portMappings":[{"hostPort":80,"HostPort":81,"containerPort":80}]}})",
           "duplicate key 'runtimeConfig.portMappings[0].hostPort'"},
          {R"({"prevResult":{"cniVersion":"1.1.0","ips":[],"IPs":[]}})",
           "duplicate key 'prevResult.ips'"},
      },
      Code::kDecode);
  EXPECT_NO_THROW(Parsed(R"({"x":1,"X":2,
      "runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"team/App":"a","team/app":"b"}},
      "prevResult":{"ips":[],"theirs":1,"Theirs":2}})"));
  EXPECT_NO_THROW(Parsed(R"({"ipam":{"type":"dhcp","mine":1,"Mine":2}})"));
}

TEST(ParseConfig, RefusesWrongTypesNamingThePath) {
  ExpectEachInvalid({
      {R"({"bridge":5})", "'bridge': 5"},
      {R"({"mtu":"1500"})", "'mtu': \"1500\""},
      {R"({"mtu":1500.5})", "'mtu'"},
      {R"({"mtu":true})", "'mtu'"},
      {R"({"mac":5})", "'mac'"},
      {R"({"isGateway":"true"})", "'isGateway'"},
      {R"({"isDefaultGateway":1})", "'isDefaultGateway'"},
      {R"({"forceAddress":[]})", "'forceAddress'"},
      {R"({"hairpinMode":{}})", "'hairpinMode'"},
      {R"({"promiscMode":0})", "'promiscMode'"},
      {R"({"ipMasq":"yes"})", "'ipMasq'"},
      {R"({"snat":5})", "'snat'"},
      {R"({"masqAll":5})", "'masqAll'"},
      {R"({"repairOnCheck":"no"})", "'repairOnCheck'"},
      {R"({"acceptMarkBit":"12"})", "'acceptMarkBit'"},
      {R"({"iptablesAdminChainName":5})", "'iptablesAdminChainName'"},
      {R"({"backend":5})", "'backend'"},
      {R"({"conditionsV4":"-s 10.0.0.0/8"})", "'conditionsV4'"},
      {R"({"ipam":[]})", "'ipam'"},
      {R"({"ipam":{"type":5}})", "'ipam.type'"},
      {R"({"ipam":{"dataDir":5}})", "'ipam.dataDir'"},
      {R"({"ipam":{"resolvConf":5}})", "'ipam.resolvConf'"},
      {R"({"ipam":{"subnet":5}})", "'ipam.subnet'"},
      {R"({"ipam":{"subnet":"10.0.0.0/24","rangeStart":5}})", "'ipam.rangeStart'"},
      {R"({"ipam":{"ranges":{}}})", "'ipam.ranges'"},
      {R"({"ipam":{"ranges":[5]}})", "'ipam.ranges[0]'"},
      {R"({"ipam":{"ranges":[[5]]}})", "'ipam.ranges[0][0]'"},
      {R"({"ipam":{"ranges":[[]]}})", "'ipam.ranges[0]'"},
      {R"({"ipam":{"ranges":[[{}]]}})", "'ipam.ranges[0][0]'"},
      {R"({"ipam":{"ranges":[[{"subnet":"10.0.0.0/24"},{"subnet":"10.1.0.0"}]]}})",
       "'ipam.ranges[0][1].subnet'"},
      {R"({"ipam":{"routes":{}}})", "'ipam.routes'"},
      {R"({"ipam":{"routes":[{}]}})", "'ipam.routes[0]'"},
      {R"({"ipam":{"routes":[{"dst":"10.0.0.0"}]}})", "'ipam.routes[0].dst'"},
      {R"({"ipam":{"routes":[{"dst":"10.0.0.0/8","gw":"fd00::1"}]}})", "'ipam.routes[0].gw'"},
      {R"({"ipam":{"routes":[{"dst":"10.0.0.1/8"}]}})", "'ipam.routes[0].dst'"},
      {R"({"ipam":{"routes":[{"dst":"10.0.0.0/8","mtu":-1}]}})", "'ipam.routes[0].mtu'"},
      {R"({"dns":[]})", "'dns'"},
      {R"({"dns":{"search":[5]}})", "'dns.search[0]'"},
      {R"({"args":5})", "'args'"},
      {R"({"args":{"cni":5}})", "'args.cni'"},
      {R"({"args":{"cni":{"ips":"10.0.0.5"}}})", "'args.cni.ips'"},
      {R"({"args":{"cni":{"labels":{"a":"b"}}}})", "'args.cni.labels'"},
      {R"({"args":{"cni":{"labels":[{"key":"a"}]}}})", "'args.cni.labels[0]'"},
      {R"({"args":{"cni":{"labels":[{"key":"a","value":5}]}}})", "'args.cni.labels[0].value'"},
      {R"({"runtimeConfig":5})", "'runtimeConfig'"},
      {R"({"runtimeConfig":{"ips":[5]}})", "'runtimeConfig.ips[0]'"},
      {R"({"runtimeConfig":{"ipRanges":5}})", "'runtimeConfig.ipRanges'"},
      {R"({"runtimeConfig":{"portMappings":{}}})", "'runtimeConfig.portMappings'"},
      {R"({"runtimeConfig":{"portMappings":[5]}})", "'runtimeConfig.portMappings[0]'"},
      {R"({"runtimeConfig":{"portMappings":[{"hostPort":80}]}})",
       "'runtimeConfig.portMappings[0]'"},
      {R"({"runtimeConfig":{"portMappings":[{"hostPort":"80","containerPort":80}]}})",
       "'runtimeConfig.portMappings[0].hostPort'"},
      {R"({"runtimeConfig":{"portMappings":[{"hostPort":80,"containerPort":80,"protocol":6}]}})",
       "'runtimeConfig.portMappings[0].protocol'"},
      {R"({"prevResult":5})", "'prevResult'"},
  });
}

TEST(ParseConfig, ReadsItsOwnDns) {
  const cni::Dns dns =
      Parsed(R"({"dns":{"nameservers":["1.1.1.1"],"domain":"d","search":["s"],"options":["o"]}})")
          .dns;
  EXPECT_EQ(
      dns,
      (cni::Dns{.nameservers = {"1.1.1.1"}, .domain = "d", .search = {"s"}, .options = {"o"}}));
}

TEST(ParseConfig, HasTheReferencesDefaultsUnderItsNames) {
  const config::Config bridge = ParsedBy("bridge", "{}");
  EXPECT_EQ(bridge.link.bridge, "cni0");
  EXPECT_FALSE(bridge.link.is_gateway || bridge.link.port.hairpin);
  EXPECT_EQ(bridge.link.force_address, config::ForceAddress::kNo);
  EXPECT_FALSE(bridge.rules.ip_masq);
  EXPECT_EQ(bridge.ipam.type, "") << "a bare link";
  const config::Config leases =
      ParsedBy("host-local", R"({"ipam":{"type":"host-local","subnet":"10.1.2.0/24"}})");
  EXPECT_EQ(leases.ipam.data_dir, "/var/lib/cni/networks");
  EXPECT_EQ(ParsedBy("firewall", "{}").rules.forward_hook.admin_chain, "CNI-ADMIN");
  EXPECT_EQ(ParsedBy("portmap", "{}").rules.forward_hook.admin_chain, "")
      << "none of the static rules";
  EXPECT_TRUE(ParsedBy("portmap", "{}").rules.snat);
}

TEST(ParseConfig, LooksAtTheKeysOfItsPartsOnly) {
  EXPECT_NO_THROW(
      ParsedBy("portmap", R"({"bridge":5,"ipam":{"subnet":"x"},"ingressPolicy":7,"mtu":"x"})"));
  EXPECT_NO_THROW(ParsedBy("firewall", R"({"bridge":5,"masqAll":"x"})"));
  EXPECT_THROW(ParsedBy("bridge", R"({"bridge":5})"), Error);
  EXPECT_THROW(ParsedBy("portmap", R"({"masqAll":"x"})"), Error);
}

TEST(ParseConfig, IgnoresBadArgumentsForRulesAndLoopback) {
  EXPECT_THAT(ParsedBy("portmap", "{}", "none").labels, IsEmpty());
  EXPECT_TRUE(ParsedBy("portmap", "{}", "none").labels_error) << "but keeps them";
  EXPECT_THAT(ParsedBy("firewall", "{}", "NOMAD_JOB_ID=billing").labels,
              ElementsAre(cni::Label{"NOMAD_JOB_ID", "billing"}));
  EXPECT_EQ(Caught([] { ParsedBy("bridge", "{}", "none"); }).code(), Code::kInvalidEnvironment);
  EXPECT_EQ(Refused("{}", "none").code(), Code::kInvalidEnvironment);
}

TEST(ParseConfig, AcceptsForeignKeysWithoutEffect) {
  EXPECT_NO_THROW(Parsed(R"({
      "vlan": 0, "vlanTrunk": [], "preserveDefaultVlan": false, "macspoofchk": false, "portIsolation": false,
      "enabledad": false, "disableContainerInterface": false, "markMasqBit": 13, "externalSetMarkChain": "",
      "firewalldZone": "trusted", "ingressPolicy": "open", "backend": "iptables", "ipMasqBackend": "nftables",
      "conditionsV4": [], "conditionsV6": null, "ipam": {"type": "host-local"}, "whatever": {"a": 1}})"));
  EXPECT_NO_THROW(Parsed(R"({"vlan":null,"ingressPolicy":"","backend":"","ipam":{"type":""}})"));
}

TEST(ParseConfig, CollectsLabelsFromBothPlaces) {
  const config::Config config =
      Parsed(R"({"args":{"cni":{"labels":[{"key":"team","value":"blue"},{"Key":"b","Value":""},
                                   {"key":"NOMAD_JOB_ID","value":"mine"}]}}})",
             "NOMAD_JOB_ID=billing;NOMAD_REGION=eu");
  EXPECT_THAT(config.labels,
              ElementsAre(cni::Label{"NOMAD_REGION", "eu"},
                          cni::Label{"team", "blue"},
                          cni::Label{"b", ""},
                          cni::Label{"NOMAD_JOB_ID", "mine"}));
}

TEST(ParseConfig, ReadsPrevResult) {
  const config::Config config =
      Parsed(R"({"prevResult":{"cniVersion":"1.0.0","interfaces":[{"name":"lo"}],"ips":[]}})");
  ASSERT_TRUE(config.prev_result);
  EXPECT_THAT(config.prev_result->interfaces, SizeIs(1));
  ExpectInvalid({R"({"prevResult":{"cniVersion":"0.4.0"}})", "'prevResult.cniVersion'"});
}

config::LenientConfig Lenient(const char* text) {
  const cni::JsonPtr config = cni::ParseJson(text, "stdin");
  return config::ParseLenient({*config, ""}, cni::TypeOf("nomad-bridge").defaults);
}

TEST(ParseLenient, ReadsValidKeys) {
  const config::LenientConfig found = Lenient(R"({"Bridge":"br7","ipam":{"dataDir":"/x"}})");
  EXPECT_EQ(found.bridge, "br7");
  EXPECT_EQ(found.data_dir, "/x");
}

TEST(ParseLenient, TakesDefaultsForEverythingElse) {
  for (const char* const text : {"null",
                                 "5",
                                 "[]",
                                 "\"x\"",
                                 "{}",
                                 R"({"bridge":5,"ipam":5})",
                                 R"({"bridge":null,"ipam":null})",
                                 R"({"bridge":"a/b","ipam":[]})",
                                 R"({"bridge":"lo","ipam":{"dataDir":5}})",
                                 R"({"bridge":{},"ipam":{"dataDir":"relative"}})",
                                 R"({"bridge":"","ipam":{"dataDir":""}})"}) {
    const config::LenientConfig found = Lenient(text);
    EXPECT_EQ(found.bridge, "nomad") << text;
    EXPECT_EQ(found.data_dir, "/var/run/cni") << text;
  }
}

}  // namespace
}  // namespace nomad_bridge::test
