// Routes, lo and DNS of a container.
#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

class Route : public World {
 protected:
  // The config with these routes on top of both families.
  static json WithRoutes(const char* routes, const char* more = "{}") {
    json config = DualStack(more);
    config["ipam"]["routes"] = json::parse(routes);
    return config;
  }
  // The only route of the container to `destination`.
  json RouteTo(const std::string& destination) {
    const json routes = RoutesTo(container(), destination);
    EXPECT_EQ(routes.size(), 1U) << destination << ": " << routes;
    return routes.empty() ? json::object() : routes.at(0);
  }
};

TEST_F(Route, IsTheDefaultRouteOfEachFamilyByDefault) {
  const json result = Attach(DualStack());

  EXPECT_EQ(RouteTo("default").at("gateway"), "172.26.64.1");
  const json ipv6 = container().Json({"ip", "-j", "-6", "route", "show", "default"});
  ASSERT_EQ(ipv6.size(), 1U) << ipv6;
  EXPECT_EQ(ipv6.at(0).at("gateway"), "fd00:26::1");
  EXPECT_EQ(result.at("routes"), json::parse(R"([{"dst": "0.0.0.0/0", "gw": "172.26.64.1"},
                            {"dst": "::/0", "gw": "fd00:26::1"}])"));
}

TEST_F(Route, IsNoDefaultRouteWithoutIsDefaultGateway) {
  Attach(DualStack(R"({"isDefaultGateway": false})"));

  EXPECT_EQ(RoutesTo(container(), "default"), json::array());
  EXPECT_EQ(container().Json({"ip", "-j", "-6", "route", "show", "default"}), json::array());
  EXPECT_TRUE(Ping(container(), "172.26.64.1"));
}

TEST_F(Route, UsesTheNetworksGatewayIfItHasNone) {
  Attach(WithRoutes(R"([{"dst": "10.0.0.0/8"}, {"dst": "2001:db8:9::/48"}])"));

  EXPECT_EQ(RouteTo("10.0.0.0/8").at("gateway"), "172.26.64.1");
  EXPECT_EQ(RouteTo("2001:db8:9::/48").at("gateway"), "fd00:26::1");
  EXPECT_EQ(RoutesTo(container(), "default"), json::array()) << "the routes say where to";
}

TEST_F(Route, UsesItsOwnGateway) {
  Attach(WithRoutes(R"([{"dst": "10.0.0.0/8", "gw": "172.26.64.200"},
                         {"dst": "2001:db8:9::/48", "gw": "fd00:26::200"}])"));

  EXPECT_EQ(RouteTo("10.0.0.0/8").at("gateway"), "172.26.64.200");
  EXPECT_EQ(RouteTo("2001:db8:9::/48").at("gateway"), "fd00:26::200");
}

TEST_F(Route, ReplacesTheDefaultRouteOfIsDefaultGateway) {
  Attach(WithRoutes(R"([{"dst": "0.0.0.0/0", "gw": "172.26.64.200"}])",
                    R"({"isDefaultGateway": true})"));

  EXPECT_EQ(RouteTo("default").at("gateway"), "172.26.64.200");
  EXPECT_EQ(container().Json({"ip", "-j", "-6", "route", "show", "default"}).size(), 1U);
}

// Else the kernel would send some answers by a network that drops them.
TEST_F(Route, HasAHigherMetricInASecondNetwork) {
  const auto expect_first_network_first = [&] {
    for (const char* const family : {"-4", "-6"}) {
      const json routes = container().Json({"ip", "-j", family, "route", "show", "default"});
      ASSERT_EQ(routes.size(), 2U) << routes;
      EXPECT_EQ(routes.at(0).at("dev"), "eth0");
      EXPECT_EQ(routes.at(1).at("dev"), "eth1");
      EXPECT_LT(routes.at(0).value("metric", 0), routes.at(1).at("metric"));
    }
  };
  Attach(DualStack());
  Attach(DualStack(R"({"name": "other", "bridge": "br-other",
                       "ipam": {"ranges": [[{"subnet": "10.8.0.0/24"}], [{"subnet": "fd08::/64"}]]}})"),
         {{"CNI_IFNAME", "eth1"}});
  expect_first_network_first();

  Attach(DualStack());

  expect_first_network_first();
}

TEST_F(Route, HasEveryFieldOfCni110) {
  const char* const routes = R"([
      {"dst": "10.0.0.0/8", "mtu": 1300, "advmss": 1200, "priority": 77, "table": 1234, "scope": 0},
      {"dst": "10.1.0.0/16", "scope": 253},
      {"dst": "2001:db8:9::/48", "mtu": 1310, "advmss": 1210, "priority": 78, "table": 1235}])";

  const json result = Attach(WithRoutes(routes));

  const json ipv4 = RouteTo("10.0.0.0/8");
  EXPECT_EQ(At(ipv4, "/metrics/0/mtu"), 1300) << ipv4;
  EXPECT_EQ(At(ipv4, "/metrics/0/advmss"), 1200) << ipv4;
  EXPECT_EQ(ipv4.at("metric"), 77);
  EXPECT_EQ(ipv4.at("table"), "1234");
  EXPECT_EQ(ipv4.at("gateway"), "172.26.64.1");
  const json on_link = RouteTo("10.1.0.0/16");
  EXPECT_EQ(on_link.at("scope"), "253");
  EXPECT_FALSE(on_link.contains("gateway"));
  const json ipv6 = RouteTo("2001:db8:9::/48");
  EXPECT_EQ(At(ipv6, "/metrics/0/mtu"), 1310) << ipv6;
  EXPECT_EQ(At(ipv6, "/metrics/0/advmss"), 1210) << ipv6;
  EXPECT_EQ(ipv6.at("metric"), 78);
  EXPECT_EQ(ipv6.at("table"), "1235");
  EXPECT_EQ(result.at("routes"), json::parse(routes));
}

TEST_F(Route, PassesCheckWithEveryField) {
  const json config = WithRoutes(R"([
      {"dst": "10.0.0.0/8", "mtu": 1300, "advmss": 1200, "priority": 77, "table": 1234, "scope": 0},
      {"dst": "10.1.0.0/16", "scope": 253}, {"dst": "10.2.0.0/16", "table": 0, "scope": 0},
      {"dst": "2001:db8:9::/48", "mtu": 1310, "priority": 78, "table": 1235}])");
  MustCheck(config, Attach(config));
}

TEST_F(Route, LeavesNothingBehindIfTheKernelRefusesIt) {
  Attach(DualStack());
  Detach(DualStack());

  MustRefuse(100, WithRoutes(R"([{"dst": "10.0.0.0/8", "gw": "192.0.2.1"}])"));
}

// ---- lo

TEST_F(Route, LoIsUpWithItsTwoAddresses) {
  ASSERT_EQ(LinkOn(container(), "lo").at("operstate"), "DOWN");

  Attach(Config());

  EXPECT_THAT(LinkOn(container(), "lo").at("flags"), Contains("UP"));
  EXPECT_THAT(AddressesOn(container(), "lo"), ElementsAre("127.0.0.1/8", "::1/128"));
  EXPECT_TRUE(Ping(container(), "127.0.0.1"));
  EXPECT_TRUE(Ping(container(), "::1"));
}

// ---- DNS

class Dns : public Route {
 protected:
  Dns() {
    std::ofstream("/run/resolv.conf") << "# from the machine\n"
                                         "nameserver 192.0.2.53\n"
                                         "nameserver 2001:db8::53\r\n"
                                         "domain example.org\n"
                                         "search a.example.org b.example.org\n"
                                         "options ndots:2 timeout:1\n";
  }
};

TEST_F(Dns, IsReadFromResolvConf) {
  const json result = Attach(Config(R"({"ipam": {"resolvConf": "/run/resolv.conf"}})"));

  EXPECT_EQ(result.at("dns"), json::parse(R"({
      "nameservers": ["192.0.2.53", "2001:db8::53"], "domain": "example.org",
      "search": ["a.example.org", "b.example.org"], "options": ["ndots:2", "timeout:1"]})"));
}

TEST_F(Dns, ConfigReplacesResolvConfWholly) {
  const json result = Attach(Config(R"({"ipam": {"resolvConf": "/run/resolv.conf"},
                                          "dns": {"nameservers": ["192.0.2.99"]}})"));

  EXPECT_EQ(result.at("dns"), json::parse(R"({"nameservers": ["192.0.2.99"]})"));
}

TEST_F(Dns, IsAbsentWithoutConfigAndResolvConf) {
  EXPECT_FALSE(Attach(Config()).contains("dns"));
}

// A VPN may come and go, so it is no reason to refuse.
TEST_F(Route, OfAVpnsTableIsNamedByAdd) {
  host().Shell(
      "ip link add vpn type veth peer name far; ip link set far up; ip link set vpn up; ip rule "
      "add lookup 52 priority 5270; ip route add 172.26.64.0/20 dev vpn table 52");
  EXPECT_THAT(MustRun("ADD", Config()),
              Err(HasSubstr("'from all lookup 52' comes first (priority 5270); fix: ip rule add to "
                            "172.26.64.0/20 lookup main priority 5269")));
}

}  // namespace
}  // namespace nomad_bridge::test
