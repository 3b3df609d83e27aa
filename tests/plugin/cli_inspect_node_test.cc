// nomad-bridge inspect, of what is on the node: its addresses, and filters of tc.
#include "tests/plugin/cli_world.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

class InspectOnNode : public CliWorld {
 protected:
  void SetUp() override {
    Attach(Publish({Port(8080, 80)}, DualStack()));
    Serve(container(), Protocol::kTcp, {"::"}, 80, "hello");
    ASSERT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
    ASSERT_THAT(RunLine("inspect 8080"), Exits(0, Out(Not(HasSubstr("no address")))));
  }

  void SetUplinkDownAndUp() {
    host().Must(Words("ip link set uplink down"));
    host().Must(Words("ip link set uplink up"));
    ASSERT_TRUE(Soon([&] { return LinkOn(host(), "uplink").at("operstate") == "UP"; }));
  }
  // As its network service does.
  void GiveAll() {
    host().Must(Words(Cat("ip address replace ", kHostIp4, "/24 dev uplink")));
    host().Must(Words(Cat("ip address replace ", kHostIp6, "/64 dev uplink nodad")));
    host().Must(Words(Cat("ip route replace default via ", kOutsideIp4)));
    host().Must(Words(Cat("ip -6 route replace default via ", kOutsideIp6)));
  }

  const std::string kNoIpv6 =
      "this node has no address for IPv6: nobody beyond it reaches the port there";
  const std::string kNoRouteForIpv4 =
      "this node has no default route for IPv4: clients beyond its own networks get no answer";
};

// A link that is set down loses them, and all routes by a gateway.
TEST_F(InspectOnNode, BlamesALostDefaultRouteOfTheNode) {
  SetUplinkDownAndUp();
  EXPECT_TRUE(IsSilent(outside(), {.to = kHostIp6, .port = 8080}));
  const std::string had = "; it had one when the port was published";
  const std::string of_ipv4 = Cat(kNoRouteForIpv4, had);
  const std::string of_ipv6 = Cat(kNoIpv6, had);
  EXPECT_EQ(At(RunLine("inspect -json 8080").json, "/attachments/0/diagnosis/path"),
            json({of_ipv4, of_ipv6}));
  EXPECT_THAT(RunLine("doctor ports.blocked"),
              Exits(1, Out(AllOf(HasSubstr(of_ipv4), HasSubstr(of_ipv6)))));
  GiveAll();
  EXPECT_THAT(RunLine("doctor ports.blocked"), Exits(0));
  EXPECT_THAT(RunLine("inspect 8080"), Exits(0, Out(Not(HasSubstr("this node has no")))));
}

// As on one that has only the other family.
TEST_F(InspectOnNode, NotesWhatTheNodeLackedBeforeTheAdd) {
  SetUplinkDownAndUp();
  Attach(Publish({Port(8080, 80)}, DualStack()));
  EXPECT_THAT(RunLine("inspect 8080"),
              Exits(0, Out(AllOf(HasSubstr(kNoRouteForIpv4), HasSubstr(Cat(kNoIpv6, "\n"))))));
  EXPECT_THAT(RunLine("doctor ports.blocked"), Exits(0));
}

TEST_F(InspectOnNode, PrintsACommonFixOnce) {
  host().Must(Words("nft flush ruleset"));
  EXPECT_THAT(RunLine("inspect 8080").out,
              Not(::testing::ContainsRegex("(fix: nomad-bridge rec.*){2}")));
}

// Somebody has unmounted it, or it is in another mount namespace.
TEST_F(InspectOnNode, DoesNotBlameAMissingNamespacePath) {
  json record = ReadRecord("alloc-1");
  record["netns_path"] = "/run/netns/elsewhere";
  WriteRecord("alloc-1", record);
  EXPECT_THAT(RunLine("inspect 8080"),
              Exits(1,
                    Out(AllOf(HasSubstr("its namespace cannot be seen at"),
                              Not(HasSubstr("why the port"))))));
}

}  // namespace
}  // namespace nomad_bridge::test
