#include "plugin/config/config.h"

#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/text.h"
#include "plugin/cni/json.h"
#include "plugin/cni/plugin_type.h"
#include "tests/unit/caught.h"

namespace nomad_bridge {
namespace {

using test::Caught;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const cni::Defaults& NomadDefaults() {
  return cni::TypeOf("nomad-bridge").defaults;
}

config::Config ParsedIn(const std::string& version,
                        const std::string& text,
                        const std::string& args = "") {
  cni::Request request{.verb = cni::Verb::kAdd, .args = args, .cni_version = version};
  request.config = cni::ParseJson(text, "stdin");
  return config::ParseConfig(request, cni::TypeOf("nomad-bridge"));
}

config::Config Parsed(const std::string& text, const std::string& args = "") {
  return ParsedIn("1.1.0", text, args);
}

Error Refused(const std::string& text, const std::string& args = "") {
  return Caught([&] { static_cast<void>(Parsed(text, args)); });
}

struct Bad {
  const char* text;
  const char* path;  // what the message names
};

void ExpectInvalid(const Bad& bad, Code code = Code::kInvalidConfig) {
  const Error error = Refused(bad.text);
  EXPECT_EQ(error.code(), code) << bad.text << ": " << error.what();
  EXPECT_THAT(error.msg(), HasSubstr(bad.path)) << bad.text;
  EXPECT_NE(error.details(), "") << bad.text;
}

TEST(ParseConfig, NothingAtAllIsACompleteNetwork) {
  const config::Config config = Parsed(R"({"name":"nomad"})");
  EXPECT_EQ(config.link.bridge, "nomad");
  EXPECT_EQ(config.link.mtu, 0);
  EXPECT_FALSE(config.link.mac);
  EXPECT_TRUE(config.link.is_gateway);
  EXPECT_TRUE(config.link.is_default_gateway);
  EXPECT_TRUE(config.link.force_address);
  EXPECT_TRUE(config.link.hairpin_mode);
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

TEST(ParseConfig, ReadsTheBridgePartOfNomadsOwnList) {
  const config::Config config = Parsed(R"({
    "cniVersion": "0.4.0", "name": "nomad", "type": "bridge", "bridge": "nomad", "ipMasq": true, "isGateway": true,
    "forceAddress": true, "hairpinMode": true,
    "ipam": {"type": "host-local", "ranges": [[{"subnet": "172.26.64.0/20"}], [{"subnet": "fd00::/112"}]],
             "dataDir": "/var/run/cni", "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}})");
  EXPECT_FALSE(config.link.is_default_gateway) << "the routes say it";
  EXPECT_THAT(config.ipam.routes,
              ElementsAre(Route{.destination = *Cidr::Parse("0.0.0.0/0")},
                          Route{.destination = *Cidr::Parse("::/0")}));
  EXPECT_THAT(config.ipam.ranges, SizeIs(2));
}

TEST(ParseConfig, ReadsKeysInAnyLetterCaseAndTakesNullForAbsent) {
  const config::Config config =
      Parsed(R"({"BRIDGE":"br7","IPAM":{"DataDir":"/x"},"mtu":null,"dns":null,"prevResult":null})");
  EXPECT_EQ(config.link.bridge, "br7");
  EXPECT_EQ(config.ipam.data_dir, "/x");
  EXPECT_EQ(config.link.mtu, 0);
}

TEST(ParseConfig, RefusesWrongTypesNamingThePath) {
  const Bad cases[] = {
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
  };
  for (const Bad& bad : cases) {
    ExpectInvalid(bad);
  }
}

TEST(ParseConfig, RefusesBridgeNamesThatMeanSomethingElse) {
  for (const char* const name : {"",
                                 "a/b",
                                 "a:b",
                                 "a b",
                                 "a\\t",
                                 ".",
                                 "..",
                                 "sixteen-bytes-xx",
                                 "all",
                                 "default",
                                 "lo",
                                 "br%d",
                                 "a\\u0000"}) {
    ExpectInvalid({Cat(R"({"bridge":")", name, "\"}").c_str(), "'bridge'"});
  }
  EXPECT_EQ(Parsed(R"({"bridge":"fifteen-bytes-x"})").link.bridge, "fifteen-bytes-x");
}

TEST(ParseConfig, MtuHasLimits) {
  EXPECT_EQ(Parsed(R"({"mtu":0})").link.mtu, 0);
  EXPECT_EQ(Parsed(R"({"mtu":68})").link.mtu, 68);
  EXPECT_EQ(Parsed(R"({"mtu":65535})").link.mtu, 65535);
  for (const char* const text :
       {R"({"mtu":67})", R"({"mtu":-1})", R"({"mtu":65536})", R"({"mtu":18446744073709551615})"}) {
    ExpectInvalid({text, "'mtu'"});
  }
}

TEST(ParseConfig, MtuHasAnotherLimitWithIpv6) {
  const char* const ranges =
      R"("ipam":{"ranges":[[{"subnet":"10.0.0.0/24"}],[{"subnet":"fd00::/64"}]]}})";
  EXPECT_EQ(Parsed(Cat(R"({"mtu":1280,)", ranges)).link.mtu, 1280);
  EXPECT_EQ(Parsed(Cat(R"({"mtu":0,)", ranges)).link.mtu, 0);
  const Error error = Refused(Cat(R"({"mtu":1279,)", ranges));
  EXPECT_EQ(error.msg(), "invalid 'mtu': 1279");
  EXPECT_THAT(error.details(), HasSubstr("1280"));
}

TEST(ParseConfig, TheStrongestMacWins) {
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

TEST(ParseConfig, RefusesMacsThatAreNoStations) {
  for (const char* const mac :
       {"01:00:5e:00:00:01", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00", "02:00", "x"}) {
    ExpectInvalid({Cat(R"({"mac":")", mac, "\"}").c_str(), "'mac'"});
    ExpectInvalid({Cat(R"({"args":{"cni":{"mac":")", mac, "\"}}}").c_str(), "'args.cni.mac'"});
    ExpectInvalid(
        {Cat(R"({"runtimeConfig":{"mac":")", mac, "\"}}").c_str(), "'runtimeConfig.mac'"});
  }
}

TEST(ParseConfig, TheDefaultGatewayFollowsTheRoutesUnlessItIsSaid) {
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

TEST(ParseConfig, PromiscuousModeTurnsTheDefaultHairpinOff) {
  const config::LinkConfig link = Parsed(R"({"promiscMode":true})").link;
  EXPECT_TRUE(link.promisc_mode);
  EXPECT_FALSE(link.hairpin_mode);
  EXPECT_FALSE(Parsed(R"({"promiscMode":true,"hairpinMode":false})").link.hairpin_mode);
  EXPECT_FALSE(Parsed(R"({"hairpinMode":false})").link.hairpin_mode);
  ExpectInvalid({R"({"promiscMode":true,"hairpinMode":true})", "'promiscMode'"});
}

TEST(ParseConfig, OrdersRangesAsTheReferenceDoes) {
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

TEST(ParseConfig, TakesBareRangesFromTheRuntime) {
  const config::Config config =
      Parsed(R"({"runtimeConfig":{"ipRanges":[{"Subnet":"10.4.0.0/24"}]}})");
  ASSERT_THAT(config.ipam.ranges, SizeIs(1));
  EXPECT_EQ(config.ipam.ranges[0].at(0).subnet, Cidr::Parse("10.4.0.0/24"));
}

TEST(ParseConfig, ARangeWithoutASubnetIsPartOfTheDefaultOne) {
  const config::Config config =
      Parsed(R"({"ipam":{"rangeStart":"172.26.65.0","gateway":"172.26.79.254"}})");
  ASSERT_THAT(config.ipam.ranges, SizeIs(1));
  EXPECT_EQ(config.ipam.ranges[0].at(0).first, Ip::Parse("172.26.65.0"));
  EXPECT_EQ(config.ipam.ranges[0].at(0).gateway, Ip::Parse("172.26.79.254"));
  ExpectInvalid({R"({"ipam":{"rangeStart":"10.0.0.9","ranges":[[{"subnet":"10.0.0.0/24"}]]}})",
                 "'ipam.rangeStart'"});
}

TEST(ParseConfig, RefusesRangesThatMeanNothing) {
  const Bad cases[] = {
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
  };
  for (const Bad& bad : cases) {
    ExpectInvalid(bad);
  }
}

TEST(ParseConfig, OldResultsHaveRoomForOneAddressPerFamily) {
  const char* const two =
      R"({"ipam":{"ranges":[[{"subnet":"10.0.0.0/24"}],[{"subnet":"10.1.0.0/24"}]]}})";
  const char* const dual =
      R"({"ipam":{"ranges":[[{"subnet":"10.0.0.0/24"}],[{"subnet":"fd00::/64"}]]}})";
  for (const std::string& version : cni::SupportedVersions()) {
    EXPECT_THAT(ParsedIn(version, dual).ipam.ranges, SizeIs(2));
    if (cni::IsAtLeast(version, "0.3.0")) {
      EXPECT_THAT(ParsedIn(version, two).ipam.ranges, SizeIs(2));
    } else {
      EXPECT_EQ(Caught([&] { static_cast<void>(ParsedIn(version, two)); }).code(),
                Code::kInvalidConfig);
    }
  }
}

TEST(ParseConfig, CollectsRequestedAddressesEachOnce) {
  const config::Config config = Parsed(R"({"args":{"cni":{"ips":["172.26.64.6/20","172.26.64.5"]}},
                                   "runtimeConfig":{"ips":["172.26.64.7","172.26.64.6"]}})",
                                       "IP=172.26.64.5");
  EXPECT_THAT(
      config.ipam.requested,
      ElementsAre(*Ip::Parse("172.26.64.5"), *Ip::Parse("172.26.64.6"), *Ip::Parse("172.26.64.7")));
  ExpectInvalid({R"({"runtimeConfig":{"ips":["10.0.0"]}})", "'runtimeConfig.ips[0]'"});
  ExpectInvalid({R"({"args":{"cni":{"ips":["10.0.0.5/33"]}}})", "'args.cni.ips[0]'"});
}

TEST(ParseConfig, ReadsRoutesWithEveryField) {
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

TEST(ParseConfig, ReadsResolvConf) {
  const UniqueFd file(::memfd_create("resolv.conf", 0));
  const std::string content =
      "# nameserver 9.9.9.9\n; x y\nnameserver 10.0.0.53\n  nameserver\tfd00::53  \r\ndomain "
      "example.org\n"
      "search a.example b.example\nsearch c.example\noptions ndots:2 edns0\nnameserver\nsortlist "
      "10.0.0.0\nsearch \xff";
  ASSERT_EQ(::pwrite(file.get(), content.data(), content.size(), 0),
            static_cast<ssize_t>(content.size()));
  const config::Config config =
      Parsed(Cat(R"({"ipam":{"resolvConf":"/proc/self/fd/)", file.get(), "\"}}"));
  EXPECT_THAT(config.ipam.dns.nameservers, ElementsAre("10.0.0.53", "fd00::53"));
  EXPECT_EQ(config.ipam.dns.domain, "example.org");
  EXPECT_THAT(config.ipam.dns.search, ElementsAre("a.example", "b.example", "c.example", "?"));
  EXPECT_THAT(config.ipam.dns.options, ElementsAre("ndots:2", "edns0"));
  ExpectInvalid({R"({"ipam":{"resolvConf":"/nowhere/resolv.conf"}})", "'ipam.resolvConf'"});
  EXPECT_TRUE(Parsed(R"({"ipam":{"resolvConf":""}})").ipam.dns.empty());
}

TEST(ParseConfig, ReadsItsOwnDns) {
  const cni::Dns dns =
      Parsed(R"({"dns":{"nameservers":["1.1.1.1"],"domain":"d","search":["s"],"options":["o"]}})")
          .dns;
  EXPECT_EQ(
      dns,
      (cni::Dns{.nameservers = {"1.1.1.1"}, .domain = "d", .search = {"s"}, .options = {"o"}}));
}

TEST(ParseConfig, TheDataDirIsAnAbsolutePath) {
  EXPECT_EQ(Parsed(R"({"ipam":{"dataDir":"/run/x"}})").ipam.data_dir, "/run/x");
  EXPECT_EQ(Parsed(R"({"ipam":{"dataDir":""}})").ipam.data_dir, "/var/run/cni");
  ExpectInvalid({R"({"ipam":{"dataDir":"x"}})", "'ipam.dataDir'"});
  ExpectInvalid({R"({"ipam":{"dataDir":"/x\u0000y"}})", "'ipam.dataDir'"});
}

TEST(ParseConfig, ReadsPortsAsGoCniSendsThem) {
  const config::Config config = Parsed(R"({"runtimeConfig":{"portMappings":[
      {"HostPort":8080,"ContainerPort":80,"Protocol":"tcp","HostIP":""},
      {"HostPort":8080,"ContainerPort":80,"Protocol":"udp","HostIP":"192.0.2.7"}]}})");
  ASSERT_THAT(config.rules.ports, SizeIs(2));
  EXPECT_EQ(config.rules.ports[0].host_port, 8080);
  EXPECT_EQ(config.rules.ports[0].container_port, 80);
  EXPECT_EQ(config.rules.ports[1].protocol, portmap::Protocol::kUdp);
  EXPECT_EQ(config.rules.ports[1].host_ip, Ip::Parse("192.0.2.7"));
}

TEST(ParseConfig, NoPortsIsNoError) {
  for (const char* const text : {R"({"runtimeConfig":{}})",
                                 R"({"runtimeConfig":null})",
                                 R"({"runtimeConfig":{"portMappings":null}})",
                                 R"({"runtimeConfig":{"portMappings":[]}})"}) {
    EXPECT_THAT(Parsed(text).rules.ports, IsEmpty()) << text;
  }
}

TEST(ParseConfig, RefusesPortsThatAreNone) {
  const std::string begin =
      R"({"runtimeConfig":{"portMappings":[{"hostPort":1,"containerPort":1},)";
  for (const char* const entry : {R"({"hostPort":80,"containerPort":80,"protocol":"icmp"})",
                                  R"({"hostPort":80,"containerPort":80,"hostIP":"x"})"}) {
    ExpectInvalid({Cat(begin, entry, "]}}").c_str(), "runtimeConfig.portMappings[1]"});
  }
}

TEST(ParseConfig, RefusesPortsOutOfRangeByNameAndRange) {
  const auto refused = [](const std::string& ports) {
    return Refused(Cat(R"({"runtimeConfig":{"portMappings":[{)", ports, "}]}}").c_str());
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

TEST(ParseConfig, TheAdminChainIsANameThatIptablesTakes) {
  EXPECT_EQ(Parsed(R"({"iptablesAdminChainName":"MY-ADMIN"})").rules.forward_hook.admin_chain,
            "MY-ADMIN");
  EXPECT_EQ(Parsed(R"({"iptablesAdminChainName":""})").rules.forward_hook.admin_chain,
            "NOMAD-ADMIN");
  for (const char* const name : {"has space",
                                 "-X",
                                 "a\\u007f",
                                 "!X",
                                 "a\\n",
                                 "\xc3\xa4",
                                 "FORWARD",
                                 "CNI-FORWARD",
                                 "ACCEPT",
                                 "twenty-nine-bytes-xxxxxxxxxxx"}) {
    ExpectInvalid(
        {Cat(R"({"iptablesAdminChainName":")", name, "\"}").c_str(), "'iptablesAdminChainName'"});
  }
}

TEST(ParseConfig, TheMarkBitIsOneOf32) {
  EXPECT_EQ(Parsed(R"({"acceptMarkBit":0})").rules.forward_hook.accept_mark_bit, 0);
  EXPECT_EQ(Parsed(R"({"acceptMarkBit":31})").rules.forward_hook.accept_mark_bit, 31);
  ExpectInvalid({R"({"acceptMarkBit":32})", "'acceptMarkBit'"});
  ExpectInvalid({R"({"acceptMarkBit":-1})", "'acceptMarkBit'"});
}

TEST(ParseConfig, RefusesWhatThisNameDoesNotDo) {
  const Bad cases[] = {{R"({"backend":"pf"})", "'backend' = \"pf\""},
                       {R"({"ipMasqBackend":"ebpf"})", "'ipMasqBackend'"},
                       {R"({"conditionsV4":["-s","10.0.0.0/8"]})", "'conditionsV4'"},
                       {R"({"conditionsV6":["x"]})", "'conditionsV6'"}};
  for (const Bad& bad : cases) {
    ExpectInvalid(bad, Code::kUnsupportedField);
  }
  EXPECT_EQ(Refused(R"({"conditionsV4":["x"],"iptablesAdminChainName":"A"})").details(),
            "use the admin chain A");
}

TEST(ParseConfig, ReadsWhatABridgesPortIsToBe) {
  const config::LinkConfig plain = Parsed("{}").link;
  EXPECT_FALSE(plain.port_isolation || plain.mac_spoof_check || plain.preserve_default_vlan);
  EXPECT_FALSE(plain.HasVlans() || plain.HasVlanGateway());
  EXPECT_EQ(plain.GatewayIfname(), "nomad");

  const config::LinkConfig link = Parsed(R"({"vlan":4094,"portIsolation":true,"macspoofchk":true,
      "preserveDefaultVlan":true,"enabledad":true,
      "vlanTrunk":[{"minID":1,"maxID":4094},{"id":7},{"minID":9,"maxID":9,"id":5}]})")
                                      .link;
  EXPECT_TRUE(link.port_isolation && link.mac_spoof_check && link.preserve_default_vlan);
  EXPECT_TRUE(link.enable_dad);
  EXPECT_EQ(link.vlan, 4094);
  EXPECT_THAT(link.vlan_trunk,
              ElementsAre(VlanRange{1, 4094}, VlanRange{7, 7}, VlanRange{9, 9}, VlanRange{5, 5}));
  EXPECT_EQ(link.GatewayIfname(), "nomad.4094");
}

TEST(ParseConfig, OnlyAGatewayOfOneVlanIsNotTheBridge) {
  const config::LinkConfig trunk = Parsed(R"({"vlanTrunk":[{"id":7}]})").link;
  EXPECT_TRUE(trunk.HasVlans());
  EXPECT_EQ(trunk.GatewayIfname(), "nomad");
  const config::LinkConfig no_gateway =
      Parsed(R"({"vlan":7,"isGateway":false,"isDefaultGateway":false})").link;
  EXPECT_EQ(no_gateway.GatewayIfname(), "nomad");
  EXPECT_EQ(Parsed(R"({"vlan":1})").link.GatewayIfname(), "nomad") << "where the bridge itself is";
  EXPECT_FALSE(Parsed(R"({"vlan":0,"vlanTrunk":[]})").link.HasVlans());
}

TEST(ParseConfig, RefusesImpossibleVlans) {
  const Bad cases[] = {
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
  };
  for (const Bad& bad : cases) {
    ExpectInvalid(bad);
  }
  EXPECT_THAT(Refused(R"({"bridge":"a-long-name","vlan":1000})").details(),
              HasSubstr("'a-long-name.1000'"));
  EXPECT_NO_THROW(static_cast<void>(Parsed(
      R"({"bridge":"a-long-name","vlan":1000,"isGateway":false,"isDefaultGateway":false})")));
}

TEST(ParseConfig, PortOptionsAreTrueOrFalse) {
  for (const std::string& key : std::vector<std::string>{"portIsolation",
                                                         "macspoofchk",
                                                         "preserveDefaultVlan",
                                                         "enabledad",
                                                         "disableContainerInterface"}) {
    ExpectInvalid({Cat("{\"", key, "\":1}").c_str(), Cat("'", key, "': 1").c_str()});
    ExpectInvalid({Cat("{\"", key, "\":\"yes\"}").c_str(), Cat("'", key, "'").c_str()});
  }
}

TEST(ParseConfig, AnInterfaceThatStaysDownHasNoAddresses) {
  ExpectInvalid({R"({"disableContainerInterface":true})", "'disableContainerInterface': true"});
}

TEST(ParseConfig, ReadsTheIngressPolicy) {
  EXPECT_EQ(Parsed("{}").rules.ingress, firewall::Ingress::kOpen);
  EXPECT_EQ(Parsed(R"({"ingressPolicy":"same-bridge"})").rules.ingress,
            firewall::Ingress::kSameBridge);
  EXPECT_EQ(Parsed(R"({"ingressPolicy":"isolated"})").rules.ingress, firewall::Ingress::kIsolated);
  ExpectInvalid({R"({"ingressPolicy":"sesame"})", "'ingressPolicy': \"sesame\""});
}

TEST(ParseConfig, ChecksWhatOnlyTheReferenceNeedsToMarkPackets) {
  EXPECT_NO_THROW(static_cast<void>(Parsed(R"({"markMasqBit":14})")));
  EXPECT_NO_THROW(static_cast<void>(Parsed(R"({"externalSetMarkChain":"KUBE-MARK-MASQ"})")));
  ExpectInvalid({R"({"markMasqBit":32})", "'markMasqBit': 32"});
  ExpectInvalid({R"({"markMasqBit":14,"externalSetMarkChain":"X"})", "'externalSetMarkChain'"});
  ExpectInvalid({R"({"externalSetMarkChain":"a-chain-name-that-is-too-long-for-iptables"})",
                 "'externalSetMarkChain'"});
}

TEST(ParseConfig, AnotherIpamKeepsItsKeysToItself) {
  const config::Config config = Parsed(R"({"ipam":{"type":"dhcp","ranges":"its own"}})");
  EXPECT_EQ(config.ipam.type, "dhcp");
  EXPECT_THAT(config.ipam.ranges, IsEmpty());
  ExpectInvalid({R"({"ipam":{"type":"../x"}})", "'ipam.type'"});
}

config::Config ParsedBy(const char* name, const std::string& json, const std::string& args = {}) {
  const cni::Request request{.verb = cni::Verb::kAdd,
                             .args = args,
                             .cni_version = "1.0.0",
                             .config = cni::ParseJson(json, "stdin")};
  return config::ParseConfig(request, cni::TypeOf(name));
}

TEST(ParseConfig, ABareLinkMayStayDown) {
  EXPECT_TRUE(
      ParsedBy("bridge", R"({"disableContainerInterface":true})").link.disable_container_interface);
}

TEST(ParseConfig, UnderAReferenceNameTheDefaultsAreItsOwn) {
  const config::Config bridge = ParsedBy("bridge", "{}");
  EXPECT_EQ(bridge.link.bridge, "cni0");
  EXPECT_FALSE(bridge.link.is_gateway || bridge.link.hairpin_mode || bridge.link.force_address);
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

TEST(ParseConfig, ANameLooksAtTheKeysOfItsPartsOnly) {
  EXPECT_NO_THROW(static_cast<void>(
      ParsedBy("portmap", R"({"bridge":5,"ipam":{"subnet":"x"},"ingressPolicy":7,"mtu":"x"})")));
  EXPECT_NO_THROW(static_cast<void>(ParsedBy("firewall", R"({"bridge":5,"masqAll":"x"})")));
  EXPECT_THROW(static_cast<void>(ParsedBy("bridge", R"({"bridge":5})")), Error);
  EXPECT_THROW(static_cast<void>(ParsedBy("portmap", R"({"masqAll":"x"})")), Error);
}

TEST(ParseConfig, RulesAndLoopbackTakeLabelsButNoOffenceFromArguments) {
  EXPECT_THAT(ParsedBy("portmap", "{}", "none").labels, IsEmpty());
  EXPECT_THAT(ParsedBy("firewall", "{}", "NOMAD_JOB_ID=billing").labels,
              ElementsAre(cni::Label{"NOMAD_JOB_ID", "billing"}));
  EXPECT_THROW(static_cast<void>(ParsedBy("bridge", "{}", "none")), Error);
}

TEST(ParseConfig, RangesWithoutATypeAreAMistake) {
  EXPECT_THROW(static_cast<void>(ParsedBy("bridge", R"({"ipam":{"subnet":"10.0.0.0/24"}})")),
               Error);
}

TEST(ParseConfig, TakesForeignKeysThatAskForNothing) {
  EXPECT_NO_THROW(static_cast<void>(Parsed(R"({
      "vlan": 0, "vlanTrunk": [], "preserveDefaultVlan": false, "macspoofchk": false, "portIsolation": false,
      "enabledad": false, "disableContainerInterface": false, "markMasqBit": 13, "externalSetMarkChain": "",
      "firewalldZone": "trusted", "ingressPolicy": "open", "backend": "iptables", "ipMasqBackend": "nftables",
      "conditionsV4": [], "conditionsV6": null, "ipam": {"type": "host-local"}, "whatever": {"a": 1}})")));
  EXPECT_NO_THROW(static_cast<void>(
      Parsed(R"({"vlan":null,"ingressPolicy":"","backend":"","ipam":{"type":""}})")));
}

TEST(ParseConfig, TakesTheBackendsOfEitherPart) {
  for (const char* const backend : {"iptables", "nftables", "firewalld"}) {
    EXPECT_NO_THROW(static_cast<void>(Parsed(Cat(R"({"backend":")", backend, "\"}"))));
  }
  EXPECT_THROW(static_cast<void>(ParsedBy("portmap", R"({"backend":"firewalld"})")), Error);
}

TEST(ParseConfig, MasqAllSaysWhomSnatIsFor) {
  EXPECT_TRUE(Parsed(R"({"masqAll":true})").rules.masq_all);
  EXPECT_FALSE(Parsed(R"({"masqAll":true,"snat":false})").rules.masq_all);
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

TEST(ParseConfig, BadArgumentsAreAnErrorOfTheEnvironment) {
  EXPECT_EQ(Refused("{}", "none").code(), Code::kInvalidEnvironment);
}

TEST(ParseConfig, ReadsPrevResult) {
  const config::Config config =
      Parsed(R"({"prevResult":{"cniVersion":"1.0.0","interfaces":[{"name":"lo"}],"ips":[]}})");
  ASSERT_TRUE(config.prev_result);
  EXPECT_THAT(config.prev_result->interfaces, SizeIs(1));
  ExpectInvalid({R"({"prevResult":{"cniVersion":"0.4.0"}})", "'prevResult.cniVersion'"});
}

TEST(ParseLenient, ReadsWhatIsThere) {
  const config::LenientConfig found = config::ParseLenient(
      cni::ParseJson(R"({"Bridge":"br7","ipam":{"dataDir":"/x"}})", "stdin"), NomadDefaults());
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
    const config::LenientConfig found =
        config::ParseLenient(cni::ParseJson(text, "stdin"), NomadDefaults());
    EXPECT_EQ(found.bridge, "nomad") << text;
    EXPECT_EQ(found.data_dir, "/var/run/cni") << text;
  }
}

}  // namespace
}  // namespace nomad_bridge
