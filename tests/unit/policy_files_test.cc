// Files of policies: what they mean, and at which place what is wrong with them.
#include "tests/unit/policy_files.h"

#include <atomic>
#include <thread>

namespace nomad_bridge::test {
namespace {

using policy::Direction;
using policy::Peer;
using policy::Policies;
using policy::Policy;
using policy::Ports;

TEST_F(PolicyFiles, HoldAddressesAndPolicies) {
  Write("a.json", R"(// who may talk to whom
{ "$schema": "policy.json", "version": 1,
  "addresses": { "office": ["10.20.0.0/16", "fd00:20::/48", "10.30.0.7"] }, /* two sites */
  "policies": [
    { "name": "api", "to": {"namespace": "prod", "job": "api", "group": "web"}, "only": true,
      "mode": "audit", "refuse": "drop", "allow": [
        { "from": [{"namespace": "infra"}, "same-namespace", "office", "192.0.2.9/24", "outside",
                   "any"], "ports": ["tcp/8080", "udp/9090-9199", "sctp", "icmp"] } ] },
    { "name": "out", "from": {"namespace": "dev-*"}, "deny": [{"to": ["node"]}] } ] })");
  const Policies read = Read();

  EXPECT_EQ(read.addresses.at("office"),
            (std::vector{*Cidr::Parse("10.20.0.0/16"),
                         *Cidr::Parse("10.30.0.7/32"),
                         *Cidr::Parse("fd00:20::/48")}));
  EXPECT_EQ(read.addresses.at("192.0.2.0/24"), (std::vector{*Cidr::Parse("192.0.2.0/24")}));
  ASSERT_THAT(read.policies, SizeIs(2));
  const Policy& api = read.policies[0];
  EXPECT_EQ(api.name, "api");
  EXPECT_EQ(api.direction, Direction::kTo);
  EXPECT_EQ(policy::Text(api.selector), "namespace=prod job=api group=web");
  EXPECT_TRUE(api.only && api.is_closed);
  EXPECT_TRUE(api.is_audited && api.drops);
  ASSERT_THAT(api.allow, SizeIs(1));
  EXPECT_THAT(
      api.allow[0].peers,
      ElementsAre(Peer{.kind = Peer::Kind::kSelector, .selector = {.nomad_namespace = "infra"}},
                  Peer{.kind = Peer::Kind::kSameNamespace},
                  Peer{.kind = Peer::Kind::kAddresses, .addresses = "office"},
                  Peer{.kind = Peer::Kind::kAddresses, .addresses = "192.0.2.0/24"},
                  Peer{.kind = Peer::Kind::kOutside},
                  Peer{.kind = Peer::Kind::kAny}));
  EXPECT_THAT(api.allow[0].ports,
              ElementsAre(Ports{.first = 8080, .last = 8080},
                          Ports{.protocol = Protocol::kUdp, .first = 9090, .last = 9199},
                          Ports{.protocol = Protocol::kSctp},
                          Ports{.protocol = Protocol::kIcmp}));
  const Policy& out = read.policies[1];
  EXPECT_EQ(out.direction, Direction::kFrom);
  EXPECT_FALSE(out.is_closed);
  EXPECT_THAT(out.deny, SizeIs(1));
  EXPECT_THAT(remarks(), IsEmpty());
}

TEST_F(PolicyFiles, AreReadTogetherInTheOrderOfTheirNames) {
  Write("b.json", R"({"version": 1, "addresses": {"office": ["10.0.0.1"]}})");
  Write("z.json", R"({"version": 1, "policies": [
    {"name": "last", "from": {"namespace": "*"}, "allow": [], "deny": [{"to": ["any"]}]}]})");
  WritePolicy(R"("to": {"namespace": "*"}, "allow": [{"from": ["office"]}])");
  Write("README.md", "no policy");
  Write(".#a.json", "an editor's");
  const Policies read = Read();

  ASSERT_THAT(read.policies, SizeIs(2));
  EXPECT_EQ(read.policies[0].name, "api");
  EXPECT_EQ(read.policies[1].name, "last");
  EXPECT_THAT(remarks(),
              ElementsAre(HasSubstr("/.#a.json: left out"), HasSubstr("/README.md: left out")));
}

TEST_F(PolicyFiles, MayBeMissing) {
  std::vector<std::string> remarks;
  EXPECT_THAT(policy::ReadPolicies(Cat(directory(), "/none"), remarks).policies, IsEmpty());
  EXPECT_THAT(remarks, IsEmpty());
  EXPECT_THAT(policy::ReadPolicies(directory(), remarks).policies, IsEmpty());
  EXPECT_THAT(remarks, ElementsAre(StartsWith("there is no policy in ")));
}

TEST_F(PolicyFiles, MustBeInADirectory) {
  Write("a.json", "{}");
  std::vector<std::string> remarks;
  EXPECT_THAT(Caught([&] { return policy::ReadPolicies(Cat(directory(), "/a.json"), remarks); }),
              IsError(Code::kIo, EndsWith("/a.json'"), HasSubstr("no directory")));
}

TEST_F(PolicyFiles, MustBeRegularFilesOrLinksToThem) {
  WritePolicy(R"("to": {"namespace": "*"}, "allow": [])");
  fs::rename(Cat(directory(), "/a.json"), Cat(directory(), "/a"));
  fs::create_symlink("a", Cat(directory(), "/b.json"));
  EXPECT_THAT(Read().policies, SizeIs(1));
  fs::create_symlink("none", Cat(directory(), "/c.json"));
  EXPECT_THAT(Refused(), IsError(Code::kIo, HasSubstr("/c.json")));
  fs::remove(Cat(directory(), "/c.json"));
  fs::create_directory(Cat(directory(), "/d.json"));
  EXPECT_THAT(Refused(), IsError(Code::kIo, HasSubstr("/d.json")));
}

TEST_F(PolicyFiles, ReportThePlaceThatIsNotJson) {
  Write("a.json", "{\"version\": 1,\n  \"policies\": [}");
  EXPECT_THAT(Refused(), Says("a.json:2:16: no JSON", HasSubstr("unexpected '}'")));
  Write("a.json", "");
  EXPECT_THAT(Refused(), Says("a.json:1:1: no JSON"));
  Write("a.json", "{\"version\": 1, /* no end");
  EXPECT_THAT(Refused(), Says("a.json:1:25: no JSON", HasSubstr("comment")));
  Write("a.json", R"({"version": 1e999})");
  EXPECT_THAT(Refused(), Says("a.json:1:17: no JSON", HasSubstr("overflow")));
  for (const std::string open : {"[", "{\"a\":"}) {
    std::string nested;
    while (nested.size() < (1U << 20) - open.size()) {
      nested += open;
    }
    Write("a.json", nested);
    EXPECT_THAT(
        Refused(),
        Says(Format("a.json:1:{}: nested too deep", 32 * open.size() + 1), "allowed: 32 levels"));
  }
  Write("a.json", std::string((1U << 20) + 1, ' '));
  EXPECT_THAT(Refused(), IsError(Code::kIo, HasSubstr("/a.json")));
}

TEST_F(PolicyFiles, CountColumnsInCharactersBehindCommentsAndEscapes) {
  Write("a.json",
        "\xef\xbb\xbf{ // \"vers\n/* é { \\*/ \"version\" /**/ : 1, \"addresses\": {\"a\":"
        "[\"1.2.3.4\\u002f32\"]}, \"pölicies\": 1 }");
  EXPECT_THAT(Refused(), Says("a.json:2:72: unknown key 'pölicies'; did you mean 'policies'?"));
}

TEST_F(PolicyFiles, HoldTenThousandAddressesInAList) {
  std::string list;
  for (int i = 0; i < 10'000; ++i) {
    list += Format("{}\"10.{}.{}.1/24\"", i == 0 ? "" : ", ", i / 250, i % 250);
  }
  Write("a.json", Format(R"({"version": 1, "addresses": {"many": [{}]}})", list));
  EXPECT_THAT(Read().addresses.at("many"), SizeIs(10'000));
}

TEST_F(PolicyFiles, MergeOverlapsAndSaySo) {
  Write("a.json", R"({"version": 1, "addresses": {
    "office": ["10.1.2.0/24", "10.0.0.0/8", "10.0.0.0/8", "fd00::/64", "10.255.255.255"],
    "none": []}})");
  EXPECT_EQ(Read().addresses.at("office"),
            (std::vector{*Cidr::Parse("10.0.0.0/8"), *Cidr::Parse("fd00::/64")}));
  EXPECT_THAT(remarks(),
              ElementsAre(EndsWith("/a.json:2:5: 'office': 10.0.0.0/8 is within 10.0.0.0/8, and 2 "
                                   "more overlap"),
                          EndsWith("/a.json:3:5: 'none' is empty"),
                          StartsWith("there is no policy")));
}

TEST_F(PolicyFiles, AreRefusedWhenTwoDefineTheSame) {
  WritePolicy(R"("to": {"namespace": "*"}, "allow": [])");
  WritePolicy(R"("from": {"namespace": "*"}, "allow": [])", "b.json");
  EXPECT_THAT(Refused(), Says("b.json:2:10: 'api' is defined twice", EndsWith("/a.json:2:10")));
  Write("b.json", R"({"version": 1, "addresses": {"office": []}})");
  Write("c.json", R"({"version": 1, "addresses": {"office": []}})");
  EXPECT_THAT(Refused(), Says("c.json:1:30: 'office' is defined twice", EndsWith("/b.json:1:30")));
}

TEST_F(PolicyFiles, SayThatTheNodeIsNeverShutOut) {
  WritePolicy(R"("to": {"namespace": "*"}, "allow": [{"from": ["node"]}])");
  EXPECT_THAT(Read().policies, SizeIs(1));
  EXPECT_THAT(remarks(), ElementsAre(HasSubstr("a.json:2:63: the node always reaches")));
}

// While a writer changes the file without a pause, each read sees one whole state of the file, or
// refuses the file because it changes.
TEST_F(PolicyFiles, AreNotReadHalfWritten) {
  const std::string one = R"({"version": 1, "policies": [], "addresses": {"a": ["10.0.0.1"]}})";
  const std::string other = R"({"version": 1, "policies": [], "addresses": {"a": ["10.0.0.2"]}})";
  Write("a.json", one);
  std::atomic<bool> is_over = false;
  std::thread writer([&] {
    for (int i = 0; !is_over; ++i) {
      Write("a.json", i % 2 == 0 ? other : one);
    }
  });
  int refused = 0;
  for (int i = 0; i < 20'000 && refused == 0; ++i) {
    try {
      EXPECT_THAT(Read().addresses.at("a"), SizeIs(1));
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == Code::kTryAgain ||
                  std::string_view(error.details()).find("unexpected end") != std::string::npos)
          << error;
      ++refused;
    }
  }
  is_over = true;
  writer.join();
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace nomad_bridge::test
