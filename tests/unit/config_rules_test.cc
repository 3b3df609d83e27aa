#include "tests/unit/parsed_config.h"

namespace nomad_bridge::test {
namespace {

TEST(RulesConfig, ReadsPortsAsGoCniSendsThem) {
  const config::Config config = Parsed(R"({"runtimeConfig":{"portMappings":[
      {"HostPort":8080,"ContainerPort":80,"Protocol":"tcp","HostIP":""},
      {"HostPort":8080,"ContainerPort":80,"Protocol":"udp","HostIP":"192.0.2.7"}]}})");
  ASSERT_THAT(config.rules.ports, SizeIs(2));
  EXPECT_EQ(config.rules.ports[0].host_port, 8080);
  EXPECT_EQ(config.rules.ports[0].container_port, 80);
  EXPECT_EQ(config.rules.ports[1].protocol, Protocol::kUdp);
  EXPECT_EQ(config.rules.ports[1].host_ip, Ip::Parse("192.0.2.7"));
}

TEST(RulesConfig, MayHaveNoPorts) {
  for (const char* const text : {R"({"runtimeConfig":{}})",
                                 R"({"runtimeConfig":null})",
                                 R"({"runtimeConfig":{"portMappings":null}})",
                                 R"({"runtimeConfig":{"portMappings":[]}})"}) {
    EXPECT_THAT(Parsed(text).rules.ports, IsEmpty()) << text;
  }
}

TEST(RulesConfig, RefusesUnknownProtocolsAndHostAddresses) {
  const std::string begin =
      R"({"runtimeConfig":{"portMappings":[{"hostPort":1,"containerPort":1},)";
  for (const char* const entry : {R"({"hostPort":80,"containerPort":80,"protocol":"icmp"})",
                                  R"({"hostPort":80,"containerPort":80,"hostIP":"x"})"}) {
    ExpectInvalid({Cat(begin, entry, "]}}"), "runtimeConfig.portMappings[1]"});
  }
}

TEST(RulesConfig, RefusesPortsOutOfRangeByNameAndRange) {
  const auto refused = [](const std::string& ports) {
    return Refused(Cat(R"({"runtimeConfig":{"portMappings":[{)", ports, "}]}}"));
  };
  for (const char* const port : {"0", "-1", "65536", "4294967296", "4294967376"}) {
    const Error host = refused(Cat(R"("containerPort":80,"hostPort":)", port));
    EXPECT_EQ(host.msg(), Cat("invalid 'runtimeConfig.portMappings[0].hostPort': ", port));
    EXPECT_EQ(host.details(), "allowed: an integer from 1 to 65535");
    const Error container = refused(Cat(R"("hostPort":80,"containerPort":)", port));
    EXPECT_EQ(container.msg(),
              Cat("invalid 'runtimeConfig.portMappings[0].containerPort': ", port));
    EXPECT_EQ(container.details(), "allowed: an integer from 1 to 65535");
  }
}

TEST(RulesConfig, ReadsPrefixesThatAreNotMasqueraded) {
  EXPECT_THAT(
      Parsed(R"({"nonMasqueradeCIDRs":["10.0.0.0/8","fd99::/16"]})").rules.non_masquerade_cidrs,
      ElementsAre(Cidr::Parse("10.0.0.0/8").value(), Cidr::Parse("fd99::/16").value()));
  EXPECT_THAT(Parsed("{}").rules.non_masquerade_cidrs, IsEmpty());
  ExpectInvalid({R"({"nonMasqueradeCIDRs":"10.0.0.0/8"})", "'nonMasqueradeCIDRs'"});
  for (const char* const prefix : {R"("10.0.0.0")", R"("10.0.0.0/33")", R"("")", "8", "null"}) {
    const Error error = Refused(Cat(R"({"nonMasqueradeCIDRs":["fd99::/16",)", prefix, "]}"));
    EXPECT_EQ(error.msg(), Cat("invalid 'nonMasqueradeCIDRs[1]': ", prefix));
    EXPECT_THAT(error.details(), HasSubstr("'10.0.0.0/24'")) << prefix;
  }
}

TEST(RulesConfig, HasAnAdminChainThatIptablesTakes) {
  EXPECT_EQ(Parsed(R"({"iptablesAdminChainName":"MY-ADMIN"})").rules.forward_hook.admin_chain,
            "MY-ADMIN");
  EXPECT_EQ(Parsed(R"({"iptablesAdminChainName":""})").rules.forward_hook.admin_chain,
            "NOMAD-ADMIN");
  const auto names = R"(["has space", "-X", "a\u007f", "!X", "a\n", "ä", "FORWARD", "CNI-FORWARD",
                         "ACCEPT", "twenty-nine-bytes-xxxxxxxxxxx"])"_json;
  for (const json& name : names) {
    ExpectInvalid(
        {Cat(R"({"iptablesAdminChainName":)", name.dump(), "}"), "'iptablesAdminChainName'"});
  }
}

TEST(RulesConfig, HasAMarkBitFrom0To31) {
  EXPECT_EQ(Parsed(R"({"acceptMarkBit":0})").rules.forward_hook.accept_mark_bit, 0);
  EXPECT_EQ(Parsed(R"({"acceptMarkBit":31})").rules.forward_hook.accept_mark_bit, 31);
  ExpectInvalid({R"({"acceptMarkBit":32})", "'acceptMarkBit'"});
  ExpectInvalid({R"({"acceptMarkBit":-1})", "'acceptMarkBit'"});
}

TEST(RulesConfig, RefusesUnsupportedValuesNamingTheAlternative) {
  ExpectEachInvalid(
      {
          {R"({"backend":"pf"})", "unsupported 'backend': \"pf\""},
          {R"({"ipMasqBackend":"ebpf"})", "'ipMasqBackend'"},
          {R"({"conditionsV4":["-s","10.0.0.0/8"]})", "'conditionsV4'"},
          {R"({"conditionsV6":["x"]})", "'conditionsV6'"},
      },
      Code::kUnsupportedField);
  EXPECT_EQ(Refused(R"({"conditionsV4":["x"],"iptablesAdminChainName":"A"})").details(),
            "use the admin chain A");
}

TEST(RulesConfig, ReadsTheIngressPolicy) {
  EXPECT_EQ(Parsed("{}").rules.ingress, firewall::Ingress::kOpen);
  EXPECT_EQ(Parsed(R"({"ingressPolicy":"same-bridge"})").rules.ingress,
            firewall::Ingress::kSameBridge);
  EXPECT_EQ(Parsed(R"({"ingressPolicy":"isolated"})").rules.ingress, firewall::Ingress::kIsolated);
  ExpectInvalid({R"({"ingressPolicy":"sesame"})", "'ingressPolicy': \"sesame\""});
}

TEST(RulesConfig, ReadsInbound) {
  EXPECT_EQ(Parsed("{}").rules.inbound, firewall::Inbound::kPublished);
  EXPECT_EQ(ParsedBy("firewall", "{}").rules.inbound, firewall::Inbound::kAny);
  EXPECT_EQ(Parsed(R"({"inbound":"any"})").rules.inbound, firewall::Inbound::kAny);
  EXPECT_EQ(ParsedBy("firewall", R"({"inbound":"published"})").rules.inbound,
            firewall::Inbound::kPublished);
  ExpectInvalid({R"({"inbound":"none"})", "'inbound': \"none\""});
}

TEST(RulesConfig, ReadsWhetherSourcesAreChecked) {
  const auto read = [](const char* config) {
    const config::LinkConfig link = Parsed(config).link;
    return std::pair(link.port.source_check, link.requires_source_check);
  };
  EXPECT_EQ(read("{}"), std::pair(true, false)) << "where the kernel can";
  EXPECT_EQ(read(R"({"sourceCheck":true})"), std::pair(true, true));
  EXPECT_EQ(read(R"({"sourceCheck":false})"), std::pair(false, false));
  EXPECT_EQ(read(R"({"vlanTrunk":[{"id":5}]})"), std::pair(false, false));
  ExpectInvalid({R"({"sourceCheck":true,"vlanTrunk":[{"id":5}]})", "'sourceCheck': true"});
}

TEST(RulesConfig, ChecksTheKeysThatOnlyTheReferenceNeeds) {
  EXPECT_NO_THROW(Parsed(R"({"markMasqBit":14})"));
  EXPECT_NO_THROW(Parsed(R"({"externalSetMarkChain":"KUBE-MARK-MASQ"})"));
  ExpectInvalid({R"({"markMasqBit":32})", "'markMasqBit': 32"});
  ExpectInvalid({R"({"markMasqBit":14,"externalSetMarkChain":"X"})", "'externalSetMarkChain'"});
  ExpectInvalid({R"({"externalSetMarkChain":"a-chain-name-that-is-too-long-for-iptables"})",
                 "'externalSetMarkChain'"});
}

TEST(RulesConfig, TakesTheBackendsOfEitherPart) {
  for (const char* const backend : {"iptables", "nftables", "firewalld"}) {
    EXPECT_NO_THROW(Parsed(Cat(R"({"backend":")", backend, "\"}")));
  }
  EXPECT_THROW(ParsedBy("portmap", R"({"backend":"firewalld"})"), Error);
}

TEST(RulesConfig, HasMasqAllOnlyTogetherWithSnat) {
  EXPECT_TRUE(Parsed(R"({"masqAll":true})").rules.masq_all);
  EXPECT_FALSE(Parsed(R"({"masqAll":true,"snat":false})").rules.masq_all);
}

}  // namespace
}  // namespace nomad_bridge::test
