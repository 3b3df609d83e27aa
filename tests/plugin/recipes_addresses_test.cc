// Addresses, name servers and packet sizes that a site wants otherwise.
#include "tests/plugin/recipes_world.h"

namespace nomad_bridge::test {
namespace {

class RecipeFor : public Recipe {};

TEST_F(RecipeFor, StaticAddressIsTheOneThatTheJobAsksFor) {
  const Network network = Run("static");
  Node& other = AddContainer("other");

  const Attached web = MustAdd(network, Allocation("web", container(), {}, "IP=172.26.176.10;"));

  EXPECT_EQ(AddressOf(web.result), "172.26.176.10");
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
  Attached second = Allocation("second", other, {}, "IP=172.26.176.10;");
  const Outcome refused = AddTo(network, second);
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(MsgAndDetails(refused), AllOf(HasSubstr("172.26.176.10"), HasSubstr("web")));
}

TEST_F(RecipeFor, StaticAddressIsRefusedWhereJobsMayNotAsk) {
  Network network = Run("static");
  network.list["plugins"][0]["requests"] = "refuse";
  Attached web = Allocation("web", container(), {}, "IP=172.26.176.10;");

  EXPECT_NE(AddTo(network, web).exit_code, 0);
}

TEST_F(RecipeFor, Ipv6AloneReachesAndIsReached) {
  const Attached web = MustAdd(Run("ipv6-only"), Allocation("web", container(), {Port(8080, 80)}));

  EXPECT_THAT(AddressesOn(container(), "eth0"), ElementsAre("fd00:26:6::2/64"));
  EXPECT_THAT(RoutesTo(container(), "0.0.0.0/0"), IsEmpty());
  Serve(container(), Protocol::kTcp, {"::"}, 80, "web");
  EXPECT_EQ(TcpText(outside(), kHostIp6, 8080), "web");
  EXPECT_TRUE(Ping(container(), kOutsideIp6));
}

TEST_F(RecipeFor, DnsIsThatOfTheResolverBehindTheStub) {
  const Attached web = MustAdd(Run("dns"), Allocation("web", container()));

  EXPECT_EQ(At(web.result, "/dns/nameservers"), json({"192.0.2.53"}));
  EXPECT_EQ(At(web.result, "/dns/search"), json({"example"}));
}

TEST_F(RecipeFor, UplinkMtuLetsTheLargestPacketThatTheUplinkTakesPass) {
  host().Must(Words("ip link set uplink mtu 1400"));

  MustAdd(Run("uplink-mtu"), Allocation("web", container()));

  const auto ping = [&](int payload) {
    return container().Run(Words(Cat("ping -c 1 -W 3 -M do -s ", payload, " ", kOutsideIp4)));
  };
  EXPECT_EQ(ping(1372).exit_code, 0) << "28 bytes of headers";
  const Outcome larger = ping(1373);
  EXPECT_NE(larger.exit_code, 0);
  EXPECT_THAT(larger.err + larger.out, HasSubstr("essage too long"))
      << "said at once, by its own interface";
}

}  // namespace
}  // namespace nomad_bridge::test
