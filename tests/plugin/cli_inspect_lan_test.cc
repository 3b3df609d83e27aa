// nomad-bridge inspect of an allocation on a bridge that is the node's way to its LAN.
#include "tests/plugin/lan_world.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

class InspectOnLan : public LanWorld {
 protected:
  void SetUp() override {
    Attach(Publish({Port(8080, 80)}, OnLanBehindTheNode()));
    Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 80, "hello");
  }
};

TEST_F(InspectOnLan, DoesNotBlameAMissingDefaultRouteForAClientOfTheLan) {
  container().Must(Words("ip route delete default"));
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
  EXPECT_THAT(
      RunLine(Cat("inspect 8080 -from ", kOutsideIp4)),
      Exits(1, Out(AllOf(HasSubstr("no default route for IPv4"), Not(HasSubstr("why the port"))))));
  EXPECT_THAT(RunLine("inspect 8080 -from 203.0.113.9"), Out(HasSubstr("way back      <- why")));
}

// The bridge itself has a carrier, by the port of the allocation.
TEST_F(InspectOnLan, BlamesAnUplinkOfTheBridgeWithoutACarrier) {
  ASSERT_EQ(TcpText(outside(), kHostIp4, 8080), "hello");
  EXPECT_THAT(Output("inspect 8080"), Not(HasSubstr("carrier")));
  outside().Must(Words("ip link set uplink down"));
  ASSERT_TRUE(Soon([&] { return LinkOn(host(), "uplink").at("operstate") != "UP"; }));
  EXPECT_THAT(
      RunLine("inspect 8080"),
      Exits(1,
            Out(HasSubstr(
                "interface 'lan', which leads to it, has no carrier      <- why the port does not "
                "answer\n"))));
}

TEST_F(InspectOnLan, BlamesABridgeWhoseUplinkIsDown) {
  host().Must(Words("ip link set uplink down"));
  ASSERT_TRUE(IsSilent(outside(), {.to = kHostIp4, .port = 8080}));
  const json cause = At(RunLine("inspect -json 8080").json, "/attachments/0/diagnosis/causes/0");
  EXPECT_EQ(cause.at("what"), "interface 'lan', which leads to it, has no carrier");
}

// The bridge beside works, and the route that the link had is gone with it.
TEST_F(InspectOnLan, BlamesAnUplinkThatIsDownBesideTheBridge) {
  Node& beyond = AddBeyond();
  host().Must(Words("ip route replace default via 203.0.113.2"));
  host().Must(Words("ip -6 route replace default via 2001:db8:203::2"));
  const auto answers = [&] {
    return test::Ask(beyond, {.to = "203.0.113.1", .port = 8080, .from = "203.0.113.2"})
        .has_value();
  };
  ASSERT_TRUE(answers());
  EXPECT_THAT(RunLine("inspect 8080"), Exits(0));
  host().Must(Words("ip link set beyond down"));
  const json cause = At(RunLine("inspect -json 8080").json, "/attachments/0/diagnosis/causes/0");
  EXPECT_EQ(cause.at("what"), "interface 'beyond', which leads to it, is down");
  EXPECT_THAT(RunLine("doctor ports.blocked"),
              Exits(1, Out(HasSubstr(cause.at("what").get<std::string>()))));
  host().Shell(cause.at("fix").get<std::string>());
  EXPECT_TRUE(Soon(answers));
  const std::string note =
      "this node has no default route for IPv4: clients beyond its own networks get no answer";
  EXPECT_THAT(RunLine("inspect 8080").out, HasSubstr(note));
  host().Must(Words("ip route replace default via 203.0.113.2"));
  EXPECT_THAT(Output("inspect 8080"), Not(HasSubstr(note)));
}

// A rule for the subnet would let other machines in, and one for the address has to go with it.
TEST_F(InspectOnLan, GivesAdviceWhereARuleIsForOneAddress) {
  const std::string address = AddressesOn(container(), "eth0").at(0);
  Serve(host(), Protocol::kTcp, {kHostIp4}, 4646, "node");
  host().Must(Words("iptables -A INPUT -p tcp --dport 4646 -j DROP"));
  const json cause = At(RunLine(Cat("inspect -json alloc-1 -to ", kHostIp4, ":4646")).json,
                        "/attachments/0/diagnosis/causes/0");
  EXPECT_EQ(cause.at("fix"), "");
  EXPECT_THAT(cause.at("advice").get<std::string>(),
              AllOf(HasSubstr("as long as the allocation has its address"),
                    HasSubstr(Cat("iptables -t filter -I INPUT 1 -s ",
                                  address.substr(0, address.find('/')),
                                  " -d 198.51.100.1 -p tcp --dport 4646 -j ACCEPT"))));
}

}  // namespace
}  // namespace nomad_bridge::test
