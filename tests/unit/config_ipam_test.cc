#include "plugin/cni/version.h"
#include "tests/unit/parsed_config.h"
#include "tests/unit/read_request.h"

namespace nomad_bridge::test {
namespace {

TEST(IpamConfig, OrdersRangesAsTheReferenceDoes) {
  const config::Config config = Parsed(R"({
    "ipam": {"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.10", "rangeEnd": "10.1.0.20", "gateway": "10.1.0.254",
             "ranges": [[{"subnet": "10.2.0.0/24"}, {"subnet": "10.3.0.0/24"}]]},
    "runtimeConfig": {"ipRanges": [[{"Subnet": "10.4.0.0/24", "RangeStart": "10.4.0.9", "Gateway": ""}]]}})");
  ASSERT_THAT(config.ipam.ranges, SizeIs(3));
  EXPECT_EQ(config.ipam.ranges[0].at(0).subnet, Cidr::Parse("10.4.0.0/24"));
  EXPECT_EQ(config.ipam.ranges[0].at(0).first, Ip::Parse("10.4.0.9"));
  EXPECT_EQ(config.ipam.ranges[1].at(0).first, Ip::Parse("10.1.0.10"));
  EXPECT_EQ(config.ipam.ranges[1].at(0).last, Ip::Parse("10.1.0.20"));
  EXPECT_EQ(config.ipam.ranges[1].at(0).gateway, Ip::Parse("10.1.0.254"));
  EXPECT_THAT(config.ipam.ranges[2], SizeIs(2));
}

TEST(IpamConfig, TakesBareRangesFromTheRuntime) {
  const config::Config config =
      Parsed(R"({"runtimeConfig":{"ipRanges":[{"Subnet":"10.4.0.0/24"}]}})");
  ASSERT_THAT(config.ipam.ranges, SizeIs(1));
  EXPECT_EQ(config.ipam.ranges[0].at(0).subnet, Cidr::Parse("10.4.0.0/24"));
}

TEST(IpamConfig, UsesTheDefaultSubnetForARangeWithoutOne) {
  const config::Config config =
      Parsed(R"({"ipam":{"rangeStart":"172.26.65.0","gateway":"172.26.79.254"}})");
  ASSERT_THAT(config.ipam.ranges, SizeIs(1));
  EXPECT_EQ(config.ipam.ranges[0].at(0).first, Ip::Parse("172.26.65.0"));
  EXPECT_EQ(config.ipam.ranges[0].at(0).gateway, Ip::Parse("172.26.79.254"));
  ExpectInvalid({R"({"ipam":{"rangeStart":"10.0.0.9","ranges":[[{"subnet":"10.0.0.0/24"}]]}})",
                 "'ipam.rangeStart'"});
}

TEST(IpamConfig, RefusesImpossibleRanges) {
  ExpectEachInvalid({
      {R"({"ipam":{"subnet":"10.0.0.5/24"}})", "ipam.subnet"},
      {R"({"ipam":{"subnet":"10.0.0.0/31"}})", "ipam.subnet"},
      {R"({"ipam":{"subnet":"fd00::/127"}})", "ipam.subnet"},
      {R"({"ipam":{"subnet":"10.0.0.0/33"}})", "ipam.subnet"},
      {R"({"ipam":{"subnet":"10.0.0.0/24","rangeStart":"10.0.1.5"}})", "ipam.rangeStart"},
      {R"({"ipam":{"subnet":"10.0.0.0/24","rangeEnd":"10.0.1.5"}})", "ipam.rangeEnd"},
      {R"({"ipam":{"subnet":"10.0.0.0/24","gateway":"10.0.1.1"}})", "ipam.gateway"},
      {R"({"ipam":{"subnet":"10.0.0.0/24","gateway":"fd00::1"}})", "ipam.gateway"},
      {R"({"ipam":{"ranges":[[{"subnet":"10.0.0.0/24"}],[{"subnet":"10.0.0.0/25"}]]}})",
       "ipam.ranges[1][0]"},
      {R"({"ipam":{"ranges":[[{"subnet":"10.0.0.0/24"},{"subnet":"fd00::/64"}]]}})",
       "ipam.ranges[0]"},
  });
}

TEST(IpamConfig, HasOneRangeSetPerFamilyBefore030) {
  const char* const two =
      R"({"ipam":{"ranges":[[{"subnet":"10.0.0.0/24"}],[{"subnet":"10.1.0.0/24"}]]}})";
  const char* const dual =
      R"({"ipam":{"ranges":[[{"subnet":"10.0.0.0/24"}],[{"subnet":"fd00::/64"}]]}})";
  for (const std::string& version : cni::SupportedVersions()) {
    EXPECT_THAT(ParsedBy("nomad-bridge", dual, "", version).ipam.ranges, SizeIs(2));
    if (cni::IsAtLeast(version, "0.3.0")) {
      EXPECT_THAT(ParsedBy("nomad-bridge", two, "", version).ipam.ranges, SizeIs(2));
    } else {
      EXPECT_THAT(
          Caught([&] { ParsedBy("nomad-bridge", two, "", version); }),
          IsError(Code::kInvalidConfig,
                  Cat("CNI version ", version, " does not support more than 1 address per family"),
                  "the network has 2 range sets of one family"));
    }
  }
}

TEST(IpamConfig, CollectsRequestedAddressesEachOnce) {
  const config::Config config = Parsed(R"({"args":{"cni":{"ips":["172.26.64.6/20","172.26.64.5"]}},
                                   "runtimeConfig":{"ips":["172.26.64.7","172.26.64.6"]}})",
                                       "IP=172.26.64.5");
  EXPECT_THAT(
      config.ipam.requested,
      ElementsAre(*Ip::Parse("172.26.64.5"), *Ip::Parse("172.26.64.6"), *Ip::Parse("172.26.64.7")));
  ExpectInvalid({R"({"runtimeConfig":{"ips":["10.0.0"]}})", "'runtimeConfig.ips[0]'"});
  ExpectInvalid({R"({"args":{"cni":{"ips":["10.0.0.5/33"]}}})", "'args.cni.ips[0]'"});
}

TEST(IpamConfig, ReadsRoutesWithEveryField) {
  const config::Config config =
      Parsed(R"({"ipam":{"routes":[{"dst":"10.0.0.0/8","gw":"172.26.64.9","mtu":1400,"advmss":1360,
                                   "priority":4294967295,"table":0,"scope":0},{"dst":"fd00::/8"}]}})");
  EXPECT_THAT(config.ipam.routes,
              ElementsAre(Route{.destination = *Cidr::Parse("10.0.0.0/8"),
                                .gateway = Ip::Parse("172.26.64.9"),
                                .mtu = 1400,
                                .advmss = 1360,
                                .priority = 4294967295,
                                .table = 0,
                                .scope = 0},
                          Route{.destination = *Cidr::Parse("fd00::/8")}));
}

TEST(IpamConfig, ReadsResolvConf) {
  const UniqueFd file = MemoryFile(
      "# nameserver 9.9.9.9\n; x y\nnameserver 10.0.0.53\n  nameserver\tfd00::53  \r\n"
      "domain example.org\nsearch a.example b.example\nsearch c.example\n"
      "options ndots:2 edns0\nnameserver\nsortlist 10.0.0.0\nsearch \xff");
  const config::Config config =
      Parsed(Cat(R"({"ipam":{"resolvConf":"/proc/self/fd/)", file.get(), "\"}}"));
  EXPECT_THAT(config.ipam.dns.nameservers, ElementsAre("10.0.0.53", "fd00::53"));
  EXPECT_EQ(config.ipam.dns.domain, "example.org");
  EXPECT_THAT(config.ipam.dns.search, ElementsAre("a.example", "b.example", "c.example", "?"));
  EXPECT_THAT(config.ipam.dns.options, ElementsAre("ndots:2", "edns0"));
  ExpectInvalid({R"({"ipam":{"resolvConf":"/nowhere/resolv.conf"}})", "'ipam.resolvConf'"});
  EXPECT_TRUE(Parsed(R"({"ipam":{"resolvConf":""}})").ipam.dns.empty());
}

TEST(IpamConfig, HasADataDirThatIsAnAbsolutePath) {
  EXPECT_EQ(Parsed(R"({"ipam":{"dataDir":"/run/x"}})").ipam.data_dir, "/run/x");
  EXPECT_EQ(Parsed(R"({"ipam":{"dataDir":""}})").ipam.data_dir, "/var/run/cni");
  ExpectInvalid({R"({"ipam":{"dataDir":"x"}})", "'ipam.dataDir'"});
  ExpectInvalid({R"({"ipam":{"dataDir":"/x\u0000y"}})", "'ipam.dataDir'"});
}

TEST(IpamConfig, LeavesTheKeysOfAnotherIpamPluginAlone) {
  const config::Config config = Parsed(R"({"ipam":{"type":"dhcp","ranges":"its own"}})");
  EXPECT_EQ(config.ipam.type, "dhcp");
  EXPECT_THAT(config.ipam.ranges, IsEmpty());
  ExpectInvalid({R"({"ipam":{"type":"../x"}})", "'ipam.type'"});
}

TEST(IpamConfig, RefusesRangesWithoutAType) {
  EXPECT_THROW(ParsedBy("bridge", R"({"ipam":{"subnet":"10.0.0.0/24"}})"), Error);
}

}  // namespace
}  // namespace nomad_bridge::test
