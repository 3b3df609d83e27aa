// Other plugins behind ours in a list: consul-cni, bandwidth and tuning.
#include "tests/plugin/recipes_world.h"

namespace nomad_bridge::test {
namespace {

class ChainedPlugin : public Recipe {
 protected:
  static json Seen(const std::string& verb) {
    return json::parse(FindFile(Cat("/run/consul-cni.", verb)).value_or("null"));
  }
  // "tbf" with its rate in bits per second, of each link in the host that has one.
  [[nodiscard]] std::vector<std::uint64_t> Rates() {
    std::vector<std::uint64_t> rates;
    for (const json& qdisc : host().Json(Words("tc -j qdisc show"))) {
      if (qdisc.at("kind") == "tbf") {
        rates.push_back(qdisc.at("options").at("rate").get<std::uint64_t>() * 8);
      }
    }
    std::ranges::sort(rates);
    return rates;
  }
  void ExpectTraffic() {
    EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "web");
    EXPECT_TRUE(Ping(container(), kOutsideIp4));
  }
};

TEST_F(ChainedPlugin, ConsulCniGetsTheFinishedInterface) {
  const Network network = Run("consul");
  const std::string proxy = R"(CONSUL_IPTABLES_CONFIG={"ProxyInboundPort":20000};)";

  const Attached web = MustAdd(network, Allocation("web", container(), {Port(8080, 80)}, proxy));

  const json add = Seen("ADD");
  EXPECT_EQ(add.at("environment").at("CNI_CONTAINERID"), "web");
  EXPECT_EQ(add.at("environment").at("CNI_IFNAME"), "eth0");
  EXPECT_EQ(add.at("environment").at("CNI_NETNS"), container().path());
  EXPECT_EQ(add.at("environment").at("CNI_PATH"), network.path);
  EXPECT_THAT(add.at("environment").at("CNI_ARGS").get<std::string>(), HasSubstr(proxy));
  EXPECT_EQ(add.at("config").at("name"), "consul");
  EXPECT_EQ(add.at("config").at("log_level"), "info");
  EXPECT_EQ(add.at("config").at("cniVersion"), "1.0.0");
  const json& result = add.at("config").at("prevResult");
  EXPECT_EQ(AddressesIn(result), std::vector<std::string>{"172.26.128.2/20"});
  EXPECT_EQ(result.at("interfaces").at(2).at("sandbox"), container().path());
  EXPECT_EQ(result.at("ips").at(0).at("interface"), 2);
  EXPECT_EQ(At(add, "/links/0/operstate"), "UP");
  EXPECT_EQ(At(add, "/links/0/addr_info/0/local"), "172.26.128.2");
  EXPECT_EQ(web.result, result) << "and what it hands on is the list's result";
}

TEST_F(ChainedPlugin, ConsulCniRunsFirstInDel) {
  const Network network = Run("consul");
  const Attached web = MustAdd(network, Allocation("web", container()));

  MustCheckIn(network, web);
  MustDelFrom(network, web);

  EXPECT_EQ(Seen("CHECK").at("config").at("prevResult"), web.result);
  const json del = Seen("DEL");
  EXPECT_EQ(del.at("environment").at("CNI_ARGS"), "");
  EXPECT_EQ(del.at("config").at("prevResult"), web.result);
  EXPECT_EQ(At(del, "/links/0/ifname"), "eth0") << "the interface is still there";
  EXPECT_FALSE(HasInterface(container(), "eth0"));
}

TEST_F(ChainedPlugin, BandwidthLimitsBothDirections) {
  const Network network = Run("bandwidth");

  const Attached web = MustAdd(network, Allocation("web", container(), {Port(8080, 80)}));

  EXPECT_THAT(Rates(), ElementsAre(20'000'000, 100'000'000));
  Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 80, "web");
  ExpectTraffic();
  MustCheckIn(network, web);
  MustDelFrom(network, web);
  EXPECT_THAT(Rates(), IsEmpty());
}

TEST_F(ChainedPlugin, TuningSetsASysctlOfTheAllocation) {
  const Network network = Run("tuning");

  const Attached web = MustAdd(network, Allocation("web", container(), {Port(8080, 80)}));

  EXPECT_EQ(container().Sysctl("net/ipv4/ip_unprivileged_port_start"), "0");
  EXPECT_NE(host().Sysctl("net/ipv4/ip_unprivileged_port_start"), "0");
  Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 80, "web");
  ExpectTraffic();
  MustCheckIn(network, web);
  MustDelFrom(network, web);
}

// sourceCheck knows the MAC that ADD gave; the recipe says to use our key.
TEST_F(ChainedPlugin, TuningThatSetsTheMacIsNamedByCheck) {
  Network network = Run("tuning");
  network.list["plugins"][1]["mac"] = "02:00:00:00:00:77";
  const Attached web = MustAdd(network, Allocation("web", container()));
  EXPECT_FALSE(Ping(container(), kOutsideIp4));

  EXPECT_THAT(
      CheckIn(network, web),
      Exits(Ne(0), MsgAndDetails(HasSubstr("has the MAC 02:00:00:00:00:77, and sourceCheck"))));

  network.list["plugins"][1].erase("mac");
  network.list["plugins"][0]["mac"] = "02:00:00:00:00:77";
  MustDelFrom(network, web);
  const Attached again = MustAdd(network, Allocation("web", container()));
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
  MustCheckIn(network, again);
}

}  // namespace
}  // namespace nomad_bridge::test
