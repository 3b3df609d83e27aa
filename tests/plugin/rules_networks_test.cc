// A container in two networks whose runtime publishes its ports in both of them, as podman does.

#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

class TwoNetworks : public CliWorld {
 protected:
  // What the first network is like, and the second. Without sourceCheck: an answer from the address
  // in one network may leave by the default route through the other.
  [[nodiscard]] static json One() {
    return Publish({Port(8080, 80), Port(8080, 80, "udp")}, DualStack({{"sourceCheck", false}}));
  }
  [[nodiscard]] static json Two() {
    return Publish({Port(8080, 80), Port(8080, 80, "udp")},
                   Config({{"name", "other"},
                           {"bridge", "other"},
                           {"sourceCheck", false},
                           {"ipam", {{"subnet", "10.97.0.0/24"}}}}));
  }

  [[nodiscard]] Outcome Do(const std::string& verb, const json& config) {
    Variables variables = As("web", container());
    variables["CNI_IFNAME"] = config.at("name") == "other" ? "eth1" : "eth0";
    return RunPlugin(verb, config, variables);
  }
  json Must(const std::string& verb, const json& config) {
    const Outcome outcome = Do(verb, config);
    EXPECT_EQ(outcome.exit_code, 0) << outcome;
    return outcome.json;
  }
  void AddBoth() {
    Must("ADD", One());
    Must("ADD", Two());
  }
  void DelBoth() {
    Must("DEL", One());
    Must("DEL", Two());
  }
  // The host's rules and elements, but for the ports, which lead to the container by either
  // network.
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
  EXPECT_THAT(
      second.err,
      HasSubstr("host port tcp 8080 stays with this container's attachment to network 'nomad'"));
  const Server server = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "web");
  EXPECT_EQ(Answer(), "web");
  Must("CHECK", WithResult(Two(), second.json));
}

// What has the port in the kernel keeps it; without it, the first network does. CHECK, doctor and
// reconcile all say so, whichever name comes first.
TEST_F(TwoNetworks, LeaveThePortToTheFirstNetwork) {
  for (const auto& [name, prefix] : {std::pair("aaa", "10.97.0."), std::pair("zzz", "10.98.0.")}) {
    SCOPED_TRACE(name);
    json two = Two();
    two["name"] = name;
    two["bridge"] = name;
    two["ipam"]["subnet"] = Cat(prefix, "0/24");
    Variables second = As("web", container());
    second["CNI_IFNAME"] = "eth1";
    const json one_result = Must("ADD", One());
    const json two_result = Attach(two, second);
    const Server server = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "web");
    const auto expect_first = [&, not_to = prefix] {
      for (const char* const set : {"port4", "port6"}) {
        EXPECT_THAT(Elements(set).dump(), Not(HasSubstr(not_to)));
      }
      EXPECT_THAT(Elements("port4").dump(), HasSubstr("172.26.64."));
    };

    EXPECT_THAT(MustCheck(two, two_result, second), Err(""));
    EXPECT_THAT(Do("CHECK", WithResult(One(), one_result)), Exits(0, Err("")));
    EXPECT_THAT(RunLine("reconcile"), Exits(0, Out("2 attachments; nothing to repair\n")));
    EXPECT_THAT(RunLine("doctor table.intact"), Exits(0));
    expect_first();

    host().Must(Words("nft delete table inet nomad-bridge"));
    EXPECT_THAT(RunLine("reconcile"), Exits(0));
    expect_first();
    EXPECT_THAT(MustCheck(two, two_result, second), Err(""));

    Must("DEL", One());
    EXPECT_THAT(Elements("port4").dump(), HasSubstr(prefix));
    EXPECT_EQ(Answer(), "web") << "the second";
    Must("ADD", One());
    EXPECT_THAT(RunLine("reconcile"), Exits(0, Out("2 attachments; nothing to repair\n")));
    EXPECT_THAT(Elements("port4").dump(), HasSubstr(prefix));
    EXPECT_EQ(Answer(), "web") << "still the second";
    Detach(two, second);
    EXPECT_THAT(Elements("port4").dump(), HasSubstr("172.26.64."));
    EXPECT_EQ(Answer(), "web");
    Must("DEL", One());
    EXPECT_EQ(Answer(), "");
  }
}

// Two networks by the defaults alone are on one bridge, with one subnet, and have leases of their
// own.
TEST_F(TwoNetworks, SkipEachOthersAddressesInASharedSubnet) {
  const json one = DualStack();
  const json other = DualStack({{"name", "other"}});
  Node& second = AddContainer("second");
  Node& third = AddContainer("third");
  Attach(one, As("a1", container()));
  EXPECT_THAT(AddressesIn(Attach(other, As("b1", second))),
              ElementsAre("172.26.64.3/20", "fd00:26::3/64"));
  EXPECT_EQ(AddressOf(Attach(one, As("a2", third))), "172.26.64.4");
  EXPECT_TRUE(Ping(second, kOutsideIp4));
  EXPECT_TRUE(Ping(third, "172.26.64.3"));
}

TEST_F(TwoNetworks, ShareABridgeThatTheirAddsRepairSilently) {
  Attach(Config(), As("a1", container()));
  for (const json& second : {DualStack({{"name", "dual"}}),
                             Config({{"name", "other"}, {"ipam", {{"subnet", "10.9.0.0/24"}}}})}) {
    const std::string name = second.at("name");
    EXPECT_THAT(RunPlugin("ADD", second, As(name, AddContainer(name))), Exits(0, Err("")));
  }
  host().Must(Words("ip address del 10.9.0.1/24 dev nomad"));
  EXPECT_THAT(RunPlugin("ADD", Config(), As("a2", AddContainer("a2"))), Exits(0, Err("")));
  EXPECT_THAT(RunPlugin("ADD",
                        Config({{"name", "other"}, {"ipam", {{"subnet", "10.9.0.0/24"}}}}),
                        As("o2", AddContainer("o2"))),
              Exits(0, Err("")));
  EXPECT_THAT(AddressesOn(host(), "nomad"), testing::Contains("10.9.0.1/24"));
}

// The DEL has done its own work. No port can be published without the policies in force.
TEST_F(TwoNetworks, ADelDoesNotFailBecauseTheOtherCannotHaveThePort) {
  Must("ADD", One());
  const json two = WithResult(Two(), Must("ADD", Two()));
  ReplaceFile("/run/nomad-bridge/.policy", "damaged");

  const Outcome del = Do("DEL", One());

  EXPECT_THAT(del, Exits(0, Err(HasSubstr("cannot publish the ports of container 'web'"))));
  EXPECT_EQ(FindFile(RecordOf("web")), std::nullopt);
  EnsureFileGone("/run/nomad-bridge/.policy");
  const Server server = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "web");
  Must("CHECK", two);
  EXPECT_EQ(Answer(), "web") << "repaired";
}

TEST_F(TwoNetworks, LeaveNoTrace) {
  AddBoth();
  DelBoth();
  const Snapshot before = TakeHostSnapshot();

  AddBoth();
  DelBoth();

  EXPECT_TRUE(Unchanged(before, TakeHostSnapshot()));
}

TEST_F(TwoNetworks, AFlushIsRepairedForBoth) {
  Must("ADD", One());
  const json check = WithResult(Two(), Must("ADD", Two()));
  const Snapshot before = AllButPorts();
  host().Must({"nft", "flush", "ruleset"});

  Must("CHECK", check);

  EXPECT_TRUE(Unchanged(before, AllButPorts()));
  EXPECT_EQ(Elements("port4").size(), 2U);
  const Server server = Server::Start(container(), Protocol::kTcp, "0.0.0.0", 80, "web");
  EXPECT_EQ(Answer(), "web");
}

TEST_F(TwoNetworks, KeepTheirPortFromAnotherContainer) {
  AddBoth();
  Must("DEL", One());

  EXPECT_THAT(RunPlugin("ADD", One(), As("other", AddContainer("second"))),
              Fails(102, Details(HasSubstr("network 'other', container 'web'"))));
}

// Two networks with one subnet, whose leases know nothing of each other.
TEST_F(TwoNetworks, ATakenAddressIsNamed) {
  const std::string address = AddressOf(Must("ADD", One()));
  const json same = DualStack({{"name", "other"}, {"bridge", "other"}, {"isGateway", false}});
  host().Must(Words("ip link add other type bridge"));

  EXPECT_THAT(RunPlugin("ADD", same, As("other", AddContainer("second"))),
              Fails(102, Msg(HasSubstr(Cat("address ", address, " is taken by")))));
}

// As `podman network rm` leaves it: the bridge is deleted by the runtime, without a DEL.
TEST_F(TwoNetworks, ARemovedNetworkIsForgottenByGc) {
  const json gone =
      Config(One().dump().c_str(),
             R"({"name": "gone", "bridge": "gone0", "ingressPolicy": "same-bridge"})");
  Must("ADD", gone);
  Must("DEL", gone);
  host().Must({"ip", "link", "delete", "gone0"});

  Must("ADD", One());
  Must("GC", WithValid({"web"}, One()));
  EXPECT_THAT(ListTable(), Not(HasSubstr("gone0")));
  EXPECT_THAT(RulesWith("gone0"), IsEmpty());

  // It may come back, and is as it was.
  Must("DEL", One());
  host().Must({"ip", "link", "delete", "nomad"});  // which has the same subnet
  Must("ADD", gone);
  EXPECT_THAT(host().Must({"nft", "list", "set", "inet", "nomad-bridge", "ingress_restricted"}),
              HasSubstr("gone0"));
  EXPECT_THAT(host().Must({"nft", "list", "set", "inet", "nomad-bridge", "bridges"}),
              HasSubstr("gone0"));
}

// The bridge of a record with a live attachment is created again.
TEST_F(TwoNetworks, ADeletedBridgeOfALiveAllocationIsNotForgotten) {
  const json check = WithResult(One(), Must("ADD", One()));
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
