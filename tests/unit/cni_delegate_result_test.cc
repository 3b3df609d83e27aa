#include "plugin/cni/delegate.h"
#include "plugin/cni/version.h"
#include "tests/support/test.h"

namespace nomad_bridge {
namespace {

cni::Result Parsed(const std::string& answer, const std::string& version = "1.1.0") {
  return cni::ParseDelegated({.type = "x"}, answer, version);
}

Error Unusable(const std::string& answer) {
  return Caught([&] { return Parsed(answer); });
}

TEST(ParseDelegated, ReadsEveryVersionUnderEveryConfigVersion) {
  const std::string by_family =
      R"("ip4":{"ip":"10.0.0.5/24","gateway":"10.0.0.1","routes":[{"dst":"0.0.0.0/0"}]},)"
      R"("ip6":{"ip":"fd00::5/64"},"dns":{"nameservers":["10.0.0.1"]}})";
  const std::string lists =
      R"("ips":[{"version":"4","address":"10.0.0.5/24","gateway":"10.0.0.1"},)"
      R"({"version":"6","address":"fd00::5/64"}],"routes":[{"dst":"0.0.0.0/0"}],)"
      R"("dns":{"nameservers":["10.0.0.1"]}})";
  for (const std::string& theirs : cni::SupportedVersions()) {
    for (const std::string& ours : cni::SupportedVersions()) {
      const cni::Result result = Parsed(Cat(R"({"cniVersion":")",
                                            theirs,
                                            R"(",)",
                                            cni::IsAtLeast(theirs, "0.3.0") ? lists : by_family),
                                        ours);
      EXPECT_EQ(result.ips,
                (std::vector<cni::IpConfig>{
                    {.address = *Cidr::Parse("10.0.0.5/24"), .gateway = Ip::Parse("10.0.0.1")},
                    {.address = *Cidr::Parse("fd00::5/64")}}))
          << theirs << " in " << ours;
      EXPECT_EQ(result.routes.size(), 1U);
      EXPECT_EQ(result.dns.nameservers, std::vector<std::string>{"10.0.0.1"});
    }
  }
}

TEST(ParseDelegated, UsesTheConfigsVersionIfItsOwnIsMissing) {
  EXPECT_EQ(Parsed(R"({"ip4":{"ip":"10.0.0.5/24"}})", "0.2.0").ips.size(), 1U);
  EXPECT_EQ(Parsed(R"({"cniVersion":"","ips":[{"address":"10.0.0.5/24"}]})", "1.0.0").ips.size(),
            1U);
}

TEST(ParseDelegated, IgnoresInterfacesAndIndicesIntoThem) {
  const cni::Result result =
      Parsed(R"({"Interfaces":[{"name":5}],"IPs":[{"Interface":7,"Address":"10.0.0.5/24"}]})");
  EXPECT_TRUE(result.interfaces.empty());
  EXPECT_EQ(result.ips.at(0).interface, std::nullopt);
}

TEST(ParseDelegated, NeedsAnAddress) {
  for (const char* const answer :
       {"{}", R"({"ips":[]})", R"({"ips":null})", R"({"code":7,"msg":"m"})"}) {
    EXPECT_THAT(Unusable(answer),
                IsError(Code::kDelegate,
                        "IPAM plugin returned missing IP config",
                        Cat("IPAM plugin 'x' printed: ", Printable(answer))))
        << answer;
  }
}

TEST(ParseDelegated, BlamesThePluginForAnUnusableAnswer) {
  for (const char* const answer : {"",
                                   "ok",
                                   "null",
                                   "[]",
                                   R"({"ips":[{"address":"10.0.0.5"}]})",
                                   R"({"ips":[{}]})",
                                   R"({"ips":{}})",
                                   R"({"ips":[5]})",
                                   R"({"cniVersion":"9.0.0","ips":[{"address":"10.0.0.5/24"}]})",
                                   R"({"cniVersion":5})",
                                   R"({"ips":[{"address":"10.0.0.5/24"}],"IPs":[]})",
                                   R"({"ips":[{"address":"10.0.0.5/24"}]}{})"}) {
    EXPECT_THAT(Unusable(answer),
                IsError(Code::kDelegate, "cannot use the answer of IPAM plugin 'x'", Ne("")))
        << answer;
  }
  EXPECT_EQ(Unusable(R"({"cniVersion":"9.0.0"})").details(),
            R"(invalid 'result.cniVersion': "9.0.0": allowed: a version up to 1.1.0)");
}

}  // namespace
}  // namespace nomad_bridge
