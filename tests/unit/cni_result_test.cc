#include "plugin/cni/request.h"
#include "plugin/cni/result.h"
#include "plugin/cni/version.h"
#include "tests/support/test.h"

namespace nomad_bridge {
namespace {

cni::Result DualStack() {
  return {.interfaces = {{.name = "nomad", .mac = "02:00:00:00:00:01", .mtu = 1500},
                         {.name = "veth1", .mac = "02:00:00:00:00:02", .mtu = 1500},
                         {.name = "eth0",
                          .mac = "02:00:00:00:00:03",
                          .mtu = 1500,
                          .sandbox = "/run/netns/x"}},
          .ips = {{.interface = 2,
                   .address = *Cidr::Parse("10.0.0.5/24"),
                   .gateway = Ip::Parse("10.0.0.1")},
                  {.interface = 2, .address = *Cidr::Parse("fd00::5/64")}},
          .routes = {{.destination = *Cidr::Parse("0.0.0.0/0"),
                      .gateway = Ip::Parse("10.0.0.1"),
                      .mtu = 1400,
                      .advmss = 1360,
                      .priority = 100,
                      .table = 0,
                      .scope = 0},
                     {.destination = *Cidr::Parse("fd01::/64")}}};
}

cni::Result Parsed(const json& document, std::string_view config_version) {
  return cni::ParseResult(cni::JsonView(document, "prevResult"), config_version);
}

// Of DualStack(), up to CNI 1.0.0.
constexpr const char* kInterfaces =
    R"("interfaces":[{"name":"nomad","mac":"02:00:00:00:00:01"},)"
    R"({"name":"veth1","mac":"02:00:00:00:00:02"},)"
    R"({"name":"eth0","mac":"02:00:00:00:00:03","sandbox":"/run/netns/x"}],)";
constexpr const char* kRoutes =
    R"("routes":[{"dst":"0.0.0.0/0","gw":"10.0.0.1","mtu":1400,"advmss":1360,"priority":100,)"
    R"("table":0,"scope":0},{"dst":"fd01::/64"}])";

std::string Printed(const cni::Result& result, std::string_view version) {
  return cni::ToJson(result, version).dump();
}

TEST(ResultToJson, HasOneObjectPerFamilyUpTo020) {
  for (const char* const version : {"0.1.0", "0.2.0"}) {
    EXPECT_EQ(Printed(DualStack(), version),
              Cat(R"({"cniVersion":")",
                  version,
                  R"(","ip4":{"ip":"10.0.0.5/24","gateway":"10.0.0.1",)",
                  R"("routes":[{"dst":"0.0.0.0/0","gw":"10.0.0.1"}]},)",
                  R"("ip6":{"ip":"fd00::5/64","routes":[{"dst":"fd01::/64"}]},"dns":{}})"));
  }
}

TEST(ResultToJson, HasArraysWithVersionsUpTo040) {
  for (const char* const version : {"0.3.0", "0.3.1", "0.4.0"}) {
    const std::string ips =
        R"("ips":[{"version":"4","interface":2,"address":"10.0.0.5/24","gateway":"10.0.0.1"},)"
        R"({"version":"6","interface":2,"address":"fd00::5/64"}],)";
    EXPECT_EQ(
        Printed(DualStack(), version),
        Cat(R"({"cniVersion":")", version, "\",", kInterfaces, ips, kRoutes) + R"(,"dns":{}})");
  }
}

TEST(ResultToJson, DropsVersionAndEmptyDnsFrom100) {
  const std::string ips = R"("ips":[{"interface":2,"address":"10.0.0.5/24","gateway":"10.0.0.1"},)"
                          R"({"interface":2,"address":"fd00::5/64"}],)";
  EXPECT_EQ(Printed(DualStack(), "1.0.0"),
            Cat(R"({"cniVersion":"1.0.0",)", kInterfaces, ips, kRoutes, '}'));
}

TEST(ResultToJson, HasTheNewFieldsFrom110) {
  cni::Result result = DualStack();
  result.interfaces[2].socket_path = "/run/s";
  result.interfaces[2].pci_id = "0000:00:1f.6";
  const json newest = json::parse(Printed(result, "1.1.0"));
  EXPECT_EQ(newest["interfaces"][2].dump(),
            R"({"mac":"02:00:00:00:00:03","mtu":1500,"name":"eth0","pciID":"0000:00:1f.6",)"
            R"("sandbox":"/run/netns/x","socketPath":"/run/s"})");
  const json older = json::parse(Printed(result, "1.0.0"));
  EXPECT_EQ(older["interfaces"][2].size(), 3U);
}

TEST(ResultToJson, PrintsIndexZeroAndEveryMemberOfDns) {
  const cni::Result result{
      .interfaces = {{.name = "lo"}},
      .ips = {{.interface = 0, .address = *Cidr::Parse("127.0.0.1/8")}},
      .dns = {.nameservers = {"1.1.1.1"}, .domain = "d", .search = {"s"}, .options = {"o"}}};
  EXPECT_EQ(
      Printed(result, "1.0.0"),
      R"({"cniVersion":"1.0.0","interfaces":[{"name":"lo"}],"ips":[{"interface":0,"address":"127.0.0.1/8"}],)"
      R"("dns":{"nameservers":["1.1.1.1"],"domain":"d","search":["s"],"options":["o"]}})");
}

TEST(ResultToJson, HasTheFirstAddressOfAFamilyAndItsRoutesInOldShapes) {
  const cni::Result result{
      .ips = {{.address = *Cidr::Parse("10.0.0.5/24")}, {.address = *Cidr::Parse("10.0.0.6/24")}},
      .routes = {{.destination = *Cidr::Parse("::/0")}}};
  EXPECT_EQ(Printed(result, "0.2.0"),
            R"({"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.5/24"},"dns":{}})");
}

TEST(ResultToJson, NeedsAnAddressInOldShapes) {
  const Error error = Caught([] { return cni::ToJson(cni::Result{}, "0.2.0"); });
  EXPECT_EQ(error.msg(), "cannot convert: no valid IP addresses") << "nothing behind it";
  EXPECT_EQ(error.details(), "results of CNI 0.1.0 and 0.2.0 consist of addresses");
  EXPECT_EQ(Printed(cni::Result{}, "0.4.0"), R"({"cniVersion":"0.4.0","dns":{}})");
  EXPECT_EQ(Printed(cni::Result{}, "1.1.0"), R"({"cniVersion":"1.1.0"})");
}

TEST(ParseResult, ReadsWhatItWritesInEveryVersion) {
  for (const std::string& version : cni::SupportedVersions()) {
    const json document = cni::ToJson(DualStack(), version);
    EXPECT_EQ(json(cni::ToJson(Parsed(document, version), version)), document) << version;
  }
}

TEST(ParseResult, ReadsEveryFieldOf110) {
  cni::Result result = DualStack();
  result.interfaces[2].socket_path = "/run/s";
  result.interfaces[2].pci_id = "p";
  result.dns = {.nameservers = {"1.1.1.1"}, .domain = "d", .search = {"s"}, .options = {"o"}};
  const cni::Result read = Parsed(cni::ToJson(result, "1.1.0"), "1.1.0");
  EXPECT_EQ(read.interfaces, result.interfaces);
  EXPECT_EQ(read.ips, result.ips);
  EXPECT_EQ(read.routes, result.routes);
  EXPECT_EQ(read.dns, result.dns);
}

TEST(ParseResult, AcceptsOnlyAResultOfTheSameShape) {
  const auto family = [](const std::string& version) {
    return cni::IsAtLeast(version, "1.0.0") ? 2 : cni::IsAtLeast(version, "0.3.0") ? 1 : 0;
  };
  for (const std::string& theirs : cni::SupportedVersions()) {
    for (const std::string& ours : cni::SupportedVersions()) {
      const json document = cni::ToJson(DualStack(), theirs);
      if (family(theirs) == family(ours)) {
        EXPECT_EQ(Parsed(document, ours).ips.size(), 2U) << theirs << " in " << ours;
      } else {
        EXPECT_THAT(Caught([&] { return Parsed(document, ours); }),
                    IsError(Code::kInvalidConfig, HasSubstr("'prevResult.cniVersion'")))
            << theirs << " in " << ours;
      }
    }
  }
}

TEST(ParseResult, UsesTheConfigsVersionIfItsOwnIsMissing) {
  EXPECT_EQ(Parsed(json::parse(R"({"ip4":{"ip":"10.0.0.5/24"}})"), "0.2.0").ips.size(), 1U);
  EXPECT_EQ(Parsed(json::parse(R"({"cniVersion":"","ips":[{"address":"10.0.0.5/24"}]})"), "1.0.0")
                .ips.size(),
            1U);
}

TEST(ParseResult, ReadsKeysInAnyLetterCaseAndTreatsEmptyGatewaysAsAbsent) {
  const cni::Result result = Parsed(
      json::parse(R"({"IPs":[{"Address":"10.0.0.5/24","gateway":"","Interface":null}],"DNS":{}})"),
      "1.0.0");
  ASSERT_EQ(result.ips.size(), 1U);
  EXPECT_FALSE(result.ips[0].gateway);
  EXPECT_FALSE(result.ips[0].interface);
}

TEST(ParseResult, NamesThePathOfAnInvalidValue) {
  const struct {
    const char* text;
    const char* path;
  } cases[] = {
      {"5", "'prevResult'"},
      {R"({"cniVersion":"2.0.0"})", "'prevResult.cniVersion'"},
      {R"({"ips":{}})", "'prevResult.ips'"},
      {R"({"ips":[{}]})", "'prevResult.ips[0]'"},
      {R"({"ips":[{"address":"10.0.0.5"}]})", "'prevResult.ips[0].address'"},
      {R"({"ips":[{"address":"10.0.0.5/24","gateway":"x"}]})", "'prevResult.ips[0].gateway'"},
      {R"({"ips":[{"address":"10.0.0.5/24","interface":0}]})", "'prevResult.ips[0].interface'"},
      {R"({"interfaces":[{"name":"a"}],"ips":[{"address":"10.0.0.5/24","interface":1}]})",
       "'prevResult.ips[0].interface'"},
      {R"({"interfaces":[{"name":"a"}],"ips":[{"address":"10.0.0.5/24","interface":-1}]})",
       "'prevResult.ips[0].interface'"},
      {R"({"interfaces":[{"name":5}]})", "'prevResult.interfaces[0].name'"},
      {R"({"interfaces":[{"name":"a","mtu":"x"}]})", "'prevResult.interfaces[0].mtu'"},
      {R"({"routes":[{"gw":"10.0.0.1"}]})", "'prevResult.routes[0]'"},
      {R"({"routes":[{"dst":"default"}]})", "'prevResult.routes[0].dst'"},
      {R"({"routes":[{"dst":"0.0.0.0/0","priority":4294967296}]})",
       "'prevResult.routes[0].priority'"},
      {R"({"routes":[{"dst":"0.0.0.0/0","scope":256}]})", "'prevResult.routes[0].scope'"},
      {R"({"dns":{"nameservers":"1.1.1.1"}})", "'prevResult.dns.nameservers'"},
  };
  for (const auto& [text, path] : cases) {
    EXPECT_THAT(Caught([text = text] { return Parsed(json::parse(text), "1.1.0"); }),
                IsError(Code::kInvalidConfig, HasSubstr(path)))
        << text;
  }
}

TEST(ParseResult, RefusesAnIndexWithoutInterfaces) {
  const json document = json::parse(R"({"ips":[{"address":"10.0.0.5/24","interface":0}]})");
  const Error error = Caught([&] { return Parsed(document, "1.1.0"); });
  EXPECT_EQ(error.details(), "allowed: none, as there are no interfaces");
}

TEST(AppendResult, MovesTheIndicesOfTheOther) {
  const cni::Result loopback{.interfaces = {{.name = "lo"}},
                             .ips = {{.interface = 0, .address = *Cidr::Parse("127.0.0.1/8")},
                                     {.address = *Cidr::Parse("::1/128")}},
                             .routes = {{.destination = *Cidr::Parse("10.9.0.0/16")}},
                             .dns = {.domain = "theirs"}};
  const cni::Result both = cni::Append(DualStack(), loopback);
  ASSERT_EQ(both.interfaces.size(), 4U);
  EXPECT_EQ(both.interfaces[3].name, "lo");
  EXPECT_EQ(both.ips[0].interface, 2);
  EXPECT_EQ(both.ips[2].interface, 3);
  EXPECT_FALSE(both.ips[3].interface);
  EXPECT_EQ(both.routes.size(), 3U);
  EXPECT_EQ(both.dns.domain, "theirs");
}

TEST(AppendResult, KeepsTheFirstDns) {
  EXPECT_EQ(cni::Append({.dns = {.domain = "ours"}}, {.dns = {.domain = "theirs"}}).dns.domain,
            "ours");
}

}  // namespace
}  // namespace nomad_bridge
