// A container in two networks whose runtime publishes its ports in both of them, as podman does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plugin/rules_world.h"

namespace nomad_bridge::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class TwoNetworks : public RulesWorld {
 protected:
  // What the first network is like, and the second.
  [[nodiscard]] static json One() { return Publish({Port(8080, 80), Port(8080, 80, "udp")}); }
  [[nodiscard]] static json Two() {
    json config = One();
    config["name"] = "other";
    config["bridge"] = "other";
    config["ipam"]["ranges"] = {{{{"subnet", "10.97.0.0/24"}}}};
    return config;
  }

  [[nodiscard]] Outcome Do(const std::string& verb, const json& config) {
    Variables variables = As("web", container());
    variables["CNI_IFNAME"] = config.at("name") == "other" ? "eth1" : "eth0";
    return RunPlugin(verb, config.dump(), variables);
  }
  json Must(const std::string& verb, const json& config) {
    const Outcome outcome = Do(verb, config);
    EXPECT_EQ(outcome.exit_code, 0) << outcome;
    return outcome.json;
  }
  // The host's rules and elements, but for the ports, which lead to the container by either network.
  [[nodiscard]] Snapshot AllButPorts() {
    const std::string table = "host nft inet nomad-bridge ";
    return TakeHostSnapshot().Of({"host nft ip",
                                  table + "chain",
                                  table + "element of alloc",
                                  table + "element of bridges",
                                  table + "element of masq",
                                  table + "element of snat"});
  }
  [[nodiscard]] std::string Answer() { return TcpText(outside(), kHostIp4, 8080); }
};

TEST_F(TwoNetworks, PublishAPortOnce) {
  Must("ADD", One());

  const Outcome second = Do("ADD", Two());

  EXPECT_EQ(second.exit_code, 0) << second;
  EXPECT_THAT(second.err,
              HasSubstr("host port tcp 8080 stays with the same container in network 'nomad'"));
  const Server server = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "web");
  EXPECT_EQ(Answer(), "web");
  json check = Two();
  check["prevResult"] = second.json;
  Must("CHECK", check);
}

// Two networks by the defaults alone are on one bridge, with one subnet, and have leases of their own.
TEST_F(TwoNetworks, OfTheSameSubnetPassOverEachOthersAddresses) {
  json one = Config();
  one.erase("runtimeConfig");
  json other = one;
  other["name"] = "other";
  Node& second = AddContainer("second");
  Node& third = AddContainer("third");
  Attach("a1", container(), one);
  const Outcome add = Attach("b1", second, other);
  EXPECT_EQ(add.json.at("ips").at(0).at("address"), "172.26.64.3/20");
  EXPECT_EQ(add.json.at("ips").at(1).at("address"), "fd00:26::3/64");
  EXPECT_EQ(Attach("a2", third, one).json.at("ips").at(0).at("address"), "172.26.64.4/20");
  EXPECT_TRUE(Ping(second, kOutsideIp4));
  EXPECT_TRUE(Ping(third, "172.26.64.3"));
}

TEST_F(TwoNetworks, TheOneThatStaysHasThePort) {
  Must("ADD", One());
  Must("ADD", Two());
  const Server server = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "web");

  Must("DEL", One());
  EXPECT_EQ(Answer(), "web") << "the second";
  Must("ADD", One());
  EXPECT_EQ(Answer(), "web") << "still the second";
  Must("DEL", One());
  EXPECT_EQ(Answer(), "web");
  Must("DEL", Two());
  EXPECT_EQ(Answer(), "");
}

TEST_F(TwoNetworks, LeaveNoTrace) {
  Must("ADD", One());
  Must("ADD", Two());
  Must("DEL", One());
  Must("DEL", Two());
  const Snapshot before = TakeHostSnapshot();

  Must("ADD", One());
  Must("ADD", Two());
  Must("DEL", One());
  Must("DEL", Two());

  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(TwoNetworks, AFlushIsMendedForBoth) {
  Must("ADD", One());
  json check = Two();
  check["prevResult"] = Must("ADD", Two());
  const Snapshot before = AllButPorts();
  host().Must({"nft", "flush", "ruleset"});

  Must("CHECK", check);

  EXPECT_TRUE(Unchanged(before, AllButPorts()));
  EXPECT_EQ(Elements("port4").size(), 2U);
  const Server server = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "web");
  EXPECT_EQ(Answer(), "web");
}

TEST_F(TwoNetworks, AnotherContainersPortIsTaken) {
  Must("ADD", One());
  Must("ADD", Two());
  Must("DEL", One());

  const Outcome other = Run("ADD", "other", AddContainer("guest2"), One());

  EXPECT_EQ(other.json.at("code"), 102);
  EXPECT_THAT(other.json.at("details"), HasSubstr("network 'other', container 'web'"));
}

// Two networks with one subnet, whose leases know nothing of each other.
TEST_F(TwoNetworks, AnAddressThatIsTakenIsNamed) {
  const std::string address = Must("ADD", One()).at("ips").at(0).at("address");
  json same = One();
  same["name"] = "other";
  same["bridge"] = "other";
  same["runtimeConfig"] = json::object();

  const Outcome other = Run("ADD", "other", AddContainer("guest2"), same);

  EXPECT_EQ(other.json.at("code"), 102) << other;
  EXPECT_THAT(other.json.at("msg"),
              HasSubstr("address " + address.substr(0, address.find('/')) + " is taken by"));
}

// As `podman network rm` leaves it: the bridge is deleted by the runtime, and nobody tells us.
TEST_F(TwoNetworks, ANetworkThatIsGoneIsForgottenByTheNext) {
  json gone = One();
  gone["name"] = "gone";
  gone["bridge"] = "gone0";
  gone["ingressPolicy"] = "same-bridge";
  Must("ADD", gone);
  Must("DEL", gone);
  host().Must({"ip", "link", "delete", "gone0"});

  Must("ADD", One());
  EXPECT_THAT(host().Must({"nft", "list", "ruleset"}), Not(HasSubstr("gone0")));

  // It may come back, and is as it was.
  Must("DEL", One());
  Must("ADD", gone);
  EXPECT_THAT(host().Must({"nft", "list", "set", "inet", "nomad-bridge", "ingress_restricted"}),
              HasSubstr("gone0"));
  EXPECT_THAT(host().Must({"nft", "list", "set", "inet", "nomad-bridge", "bridges"}),
              HasSubstr("gone0"));
}

// Its record says that it wants its bridge back.
TEST_F(TwoNetworks, ABridgeThatSomebodyDeletedUnderALivingAllocationIsNotForgotten) {
  json check = One();
  check["prevResult"] = Must("ADD", One());
  host().Must({"ip", "link", "delete", "nomad"});

  Must("ADD", Two());
  EXPECT_THAT(host().Must({"nft", "list", "set", "inet", "nomad-bridge", "bridges"}),
              HasSubstr("\"nomad\""));
  Must("CHECK", check);
  const Server server = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "web");
  EXPECT_EQ(Answer(), "web");
}

}  // namespace
}  // namespace nomad_bridge::test
