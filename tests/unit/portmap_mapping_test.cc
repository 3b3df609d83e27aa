#include "portmap/mapping.h"
#include "tests/support/test.h"

namespace nomad_bridge::portmap {
namespace {

PortMappingSpec Spec(std::uint16_t host_port, std::uint16_t container_port) {
  return {.path = "runtimeConfig.portMappings[2]",
          .host_port = host_port,
          .container_port = container_port};
}

PortMappingSpec On(const std::string& host_ip,
                   std::uint16_t host_port,
                   std::uint16_t container_port) {
  PortMappingSpec spec = Spec(host_port, container_port);
  spec.host_ip = host_ip;
  return spec;
}

PortMappingSpec WithProtocol(const std::string& protocol) {
  PortMappingSpec spec = Spec(8080, 80);
  spec.protocol = protocol;
  return spec;
}

const std::vector<Ip> kBoth = {Ip::Parse("172.26.64.2").value(), Ip::Parse("fd00::2").value()};
const std::vector<Ip> kOnlyIpv4 = {Ip::Parse("172.26.64.2").value()};

// The error for `specs`; "" if there is none.
std::string ErrorOf(const std::vector<PortMappingSpec>& specs) {
  try {
    static_cast<void>(MakePortMappings(specs));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidConfig);
    return error.what();
  }
  return "";
}

TEST(PortMapping, AcceptsEveryPortFrom1To65535) {
  const auto ports = MakePortMappings({Spec(1, 65535), Spec(65535, 1)});
  EXPECT_EQ(ports[0].host_port, 1);
  EXPECT_EQ(ports[0].container_port, 65535);
  EXPECT_EQ(ports[1].host_port, 65535);
}

TEST(PortMapping, AcceptsProtocolsInAnyLetterCase) {
  EXPECT_EQ(MakePortMappings({WithProtocol("")})[0].protocol, Protocol::kTcp);
  EXPECT_EQ(MakePortMappings({WithProtocol("UDP")})[0].protocol, Protocol::kUdp);
  EXPECT_EQ(MakePortMappings({WithProtocol("Sctp")})[0].protocol, Protocol::kSctp);
}

TEST(PortMapping, RefusesUnknownProtocols) {
  EXPECT_THAT(
      ErrorOf({WithProtocol("icmp")}),
      HasSubstr(
          "invalid 'runtimeConfig.portMappings[2].protocol': 'icmp': allowed: tcp, udp, sctp"));
  EXPECT_THAT(ErrorOf({WithProtocol("tcp\n")}), HasSubstr("protocol': 'tcp '"));
}

TEST(PortMapping, RefusesInvalidHostAddresses) {
  for (const std::string& bad :
       SplitFields("localhost 10.0.0.256 10.0.0.0/8 fe80::1%eth0 224.0.0.1 ff02::1 0.0.0.1 "
                   "0.255.0.7 255.255.255.255",
                   " ")) {
    EXPECT_THAT(ErrorOf({On(bad, 8080, 80)}),
                HasSubstr("invalid 'runtimeConfig.portMappings[2].hostIP': '" + bad + "'"));
  }
}

TEST(PortMapping, AcceptsLoopbackAndMappedHostAddresses) {
  EXPECT_EQ(MakePortMappings({On("127.0.0.1", 8080, 80)})[0].host_ip, Ip::Parse("127.0.0.1"));
  EXPECT_EQ(MakePortMappings({On("::ffff:192.0.2.7", 8080, 80)})[0].only, Family::kIpv4);
}

TEST(PortMapping, RefusesIpv6LocalhostAlone) {
  EXPECT_THAT(ErrorOf({On("::1", 8080, 80)}),
              HasSubstr("invalid 'runtimeConfig.portMappings[2].hostIP': '::1': a published port "
                        "cannot answer on ::1"));
  EXPECT_THAT(ErrorOf({On("::1", 8080, 80), On("127.0.0.1", 8081, 80), On("192.0.2.7", 8080, 80)}),
              HasSubstr("'::1'"));
}

TEST(PortMapping, LeavesOutIpv6LocalhostBesideAnIpv4Address) {
  for (const char* const other : {"127.0.0.1", "0.0.0.0", ""}) {
    EXPECT_EQ(MakePortMappings({On("::1", 8080, 80), On(other, 8080, 80)}).size(), 1U) << other;
  }
}

TEST(PortMapping, AcceptsTheSamePortTwiceWithTheSameTarget) {
  EXPECT_THAT(ErrorOf({Spec(8080, 80), Spec(8080, 80)}), IsEmpty());
  EXPECT_EQ(Resolve(MakePortMappings({Spec(8080, 80), Spec(8080, 80)}), kOnlyIpv4).size(), 1U);
}

TEST(PortMapping, RefusesTheSamePortTwiceWithDifferentTargets) {
  EXPECT_THAT(ErrorOf({Spec(8080, 80), Spec(8080, 81)}),
              HasSubstr("runtimeConfig.portMappings[2] publishes tcp port 8080 again: it leads to "
                        "port 80 already, and now to 81"));
  EXPECT_THAT(ErrorOf({Spec(8080, 80), On("0.0.0.0", 8080, 81)}), HasSubstr("again"));
  EXPECT_THAT(ErrorOf({On("::", 8080, 80), Spec(8080, 81)}), HasSubstr("again"));
}

TEST(PortMapping, AcceptsOnePortForTwoAddressesFamiliesOrProtocols) {
  EXPECT_THAT(ErrorOf({On("0.0.0.0", 8080, 80), On("::", 8080, 81)}), IsEmpty());
  EXPECT_THAT(ErrorOf({On("192.0.2.7", 8080, 80), On("192.0.2.8", 8080, 81)}), IsEmpty());
  EXPECT_THAT(ErrorOf({On("192.0.2.7", 8080, 80), Spec(8080, 81)}), IsEmpty());
  EXPECT_THAT(ErrorOf({WithProtocol("udp"), Spec(8080, 81)}), IsEmpty());
}

TEST(Resolve, PublishesForEveryFamilyTheAllocationHas) {
  const auto mappings = Resolve(MakePortMappings({Spec(8080, 80)}), kBoth);
  ASSERT_EQ(mappings.size(), 2U);
  EXPECT_EQ(mappings[0].container_ip, kBoth[0]);
  EXPECT_EQ(mappings[1].container_ip, kBoth[1]);
  EXPECT_EQ(Resolve(MakePortMappings({Spec(8080, 80)}), kOnlyIpv4).size(), 1U);
}

TEST(Resolve, NarrowsToTheFamilyOfTheHostAddress) {
  const auto any4 = Resolve(MakePortMappings({On("0.0.0.0", 8080, 80)}), kBoth);
  ASSERT_EQ(any4.size(), 1U);
  EXPECT_EQ(any4[0].container_ip, kBoth[0]);
  EXPECT_EQ(any4[0].host_ip, std::nullopt);
  const auto one6 = Resolve(MakePortMappings({On("2001:db8::7", 8080, 80)}), kBoth);
  ASSERT_EQ(one6.size(), 1U);
  EXPECT_EQ(one6[0].container_ip, kBoth[1]);
  EXPECT_EQ(one6[0].host_ip, Ip::Parse("2001:db8::7"));
}

TEST(Resolve, TakesTheFirstAddressOfAFamily) {
  const std::vector<Ip> two = {Ip::Parse("10.0.0.2").value(), Ip::Parse("10.0.0.3").value()};
  const auto mappings = Resolve(MakePortMappings({Spec(8080, 80)}), two);
  ASSERT_EQ(mappings.size(), 1U);
  EXPECT_EQ(mappings[0].container_ip, two[0]);
}

TEST(Resolve, RefusesAHostAddressOfAFamilyThatTheAllocationLacks) {
  for (const char* const host_ip : {"2001:db8::7", "::"}) {
    const auto mappings = MakePortMappings({On(host_ip, 8080, 80)});
    const Error error = Caught([&] { return Resolve(mappings, kOnlyIpv4); });
    EXPECT_EQ(error.code(), Code::kInvalidConfig) << host_ip;
    EXPECT_THAT(error.what(), HasSubstr("tcp port 8080"));
    EXPECT_EQ(error.details(), "the allocation has no IPv6 address");
  }
}

}  // namespace
}  // namespace nomad_bridge::portmap
