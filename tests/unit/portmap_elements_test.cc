#include "portmap/rules.h"
#include "tests/support/test.h"

namespace nomad_bridge::portmap {
namespace {

Ip MustParse(const std::string& text) {
  return Ip::Parse(text).value();
}

TEST(PortElements, AreInTheMapOfAllAddressesUnlessOneIsRequested) {
  const auto elements = Elements({{.protocol = Protocol::kTcp,
                                   .host_port = 8080,
                                   .container_ip = MustParse("172.26.64.2"),
                                   .container_port = 80},
                                  {.protocol = Protocol::kUdp,
                                   .host_ip = MustParse("192.0.2.7"),
                                   .host_port = 53,
                                   .container_ip = MustParse("172.26.64.2"),
                                   .container_port = 5353}},
                                 "veth1 job=dns");
  ASSERT_EQ(elements.size(), 2U);
  EXPECT_EQ(elements[0].set, "port4");
  EXPECT_THAT(elements[0].key, ElementsAre(6, 0, 0, 0, 0x1f, 0x90, 0, 0));
  EXPECT_THAT(elements[0].data, ElementsAre(172, 26, 64, 2, 0, 80, 0, 0));
  EXPECT_EQ(elements[1].set, "hostip4");
  EXPECT_THAT(elements[1].key, ElementsAre(192, 0, 2, 7, 17, 0, 0, 0, 0, 53, 0, 0));
  EXPECT_THAT(elements[1].data, ElementsAre(172, 26, 64, 2, 0x14, 0xe9, 0, 0));
  EXPECT_EQ(elements[1].comment, "veth1 job=dns");
}

TEST(PortElements, AreInTheIpv6MapsForIpv6Targets) {
  const auto elements = Elements({{.protocol = Protocol::kSctp,
                                   .host_ip = MustParse("2001:db8::7"),
                                   .host_port = 65535,
                                   .container_ip = MustParse("fd00::2"),
                                   .container_port = 1}},
                                 "veth1");
  ASSERT_EQ(elements.size(), 1U);
  EXPECT_EQ(elements[0].set, "hostip6");
  EXPECT_EQ(elements[0].key.size(), 24U);
  EXPECT_EQ(elements[0].data.size(), 20U);
  EXPECT_EQ(DescribeKey(elements[0]), "sctp [2001:db8::7]:65535");
}

TEST(PortElements, AreDescribedByProtocolAddressAndPort) {
  EXPECT_EQ(DescribeKey({.set = "port4", .key = {6, 0, 0, 0, 0x1f, 0x90, 0, 0}}), "tcp 8080");
  EXPECT_EQ(DescribeKey({.set = "port6", .key = {17, 0, 0, 0, 0, 53, 0, 0}}), "udp 53");
  EXPECT_EQ(DescribeKey({.set = "hostip4", .key = {192, 0, 2, 7, 17, 0, 0, 0, 0, 53, 0, 0}}),
            "udp 192.0.2.7:53");
  EXPECT_EQ(DescribeKey({.set = "alloc4", .key = {10, 0, 0, 2}}), "");
  EXPECT_EQ(DescribeKey({.set = "port4", .key = {6}}), "") << "a foreign map of that name";
}

}  // namespace
}  // namespace nomad_bridge::portmap
