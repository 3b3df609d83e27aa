// Docker, ufw and firewalld, which really run on the same node, and what their operators set there.
#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

class RunningFirewallBeside : public CliWorld {
 protected:
  static json PublishingConfig() { return Publish({Port(8080, 80)}); }

  void ExpectBothWays() {
    ExpectPublished(container());
    EXPECT_TRUE(Ping(container(), kOutsideIp4));
  }
  // The first cause that inspect shows.
  [[nodiscard]] json CauseOf(const std::string& words) {
    return At(RunLine(Cat("inspect -json ", words)).json, "/attachments/0/diagnosis/causes/0");
  }
};

// ---- Docker, which starts before us or after us

class Docker : public RunningFirewallBeside, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    const bool starts_last = GetParam();
    if (!starts_last) {
      StartFirewall("docker");
    }
    Attach(PublishingConfig());
    if (starts_last) {
      StartFirewall("docker");
    }
    Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 80, "page");
    outside().Must(Words("ip address add 198.51.100.7/24 dev uplink"));
  }
  [[nodiscard]] bool Reaches(const char* client) {
    return Ask(outside(), {.to = kHostIp4, .port = 8080, .from = client}).has_value();
  }
};

TEST_P(Docker, LeavesAllocationsToNomadAdmin) {
  host().Must(Words("iptables -I NOMAD-ADMIN -s 198.51.100.7 -j DROP"));
  EXPECT_FALSE(Reaches("198.51.100.7"));
  EXPECT_TRUE(Reaches(kOutsideIp4));
  EXPECT_THAT(RunLine("doctor forward.foreign static_rules"), Exits(0));
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err("")));
}

TEST_P(Docker, AsksItsOwnUserChainOnlyIfItStartsLast) {
  host().Must(Words("iptables -I DOCKER-USER -s 198.51.100.7 -j DROP"));
  EXPECT_EQ(Reaches("198.51.100.7"), !GetParam());
  EXPECT_TRUE(Reaches(kOutsideIp4));
}

INSTANTIATE_TEST_SUITE_P(Starts, Docker, ::testing::Bool(), [](const auto& each) {
  return std::string(each.param ? "Last" : "First");
});

// ---- ufw

class Ufw : public RunningFirewallBeside {
 protected:
  void SetUp() override {
    StartFirewall("ufw");
    host().Must(Words("ufw default deny incoming"));
    host().Must(Words("ufw default deny routed"));
    Attach(Publish({Port(8080, 80)}, DualStack()));
    Serve(container(), Protocol::kTcp, {"::"}, 80, "page");
  }
  [[nodiscard]] std::vector<std::string> Published() {
    return {TcpText(outside(), kHostIp4, 8080), TcpText(outside(), kHostIp6, 8080)};
  }
};

TEST_F(Ufw, DoesNotClosePublishedPorts) {
  EXPECT_THAT(Published(), ElementsAre("page", "page"));
  for (const char* const program : {"iptables", "ip6tables"}) {
    host().Must(Words(Cat(program, " -I NOMAD-ADMIN -o nomad -p tcp --dport 80 -j DROP")));
  }
  EXPECT_THAT(Published(), ElementsAre("", ""));
}

// In its own words, so that the port stays open after a reload.
TEST_F(Ufw, IsOpenedForAServiceOfTheNode) {
  for (const std::uint16_t port : {std::uint16_t{4646}, std::uint16_t{4647}}) {
    Serve(host(), Protocol::kTcp, {"::"}, port, "node");
    ASSERT_EQ(TcpText(container(), kBridgeIp4, port), "");
    ASSERT_EQ(TcpText(container(), kBridgeIp6, port), "");
  }
  for (const char* const gateway : {"172.26.64.1:4646", "[fd00:26::1]:4646"}) {
    host().Shell(CauseOf(Cat("alloc-1 -to ", gateway)).at("fix"));
  }
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(TcpText(container(), kBridgeIp4, 4646), "node");
    EXPECT_EQ(TcpText(container(), kBridgeIp6, 4646), "node");
    EXPECT_EQ(TcpText(container(), kBridgeIp4, 4647), "") << "nothing else";
    EXPECT_EQ(TcpText(outside(), kHostIp4, 4646), "") << "nobody else";
    if (round == 0) {
      host().Must(Words("ufw reload"));
    }
  }
}

// ---- firewalld

class Firewalld : public RunningFirewallBeside {
 protected:
  Firewalld() { StartFirewall("firewalld"); }
};

TEST_F(Firewalld, LetsUsThroughAlsoAfterItsReloads) {
  const Outcome add = MustRun("ADD", PublishingConfig());
  EXPECT_THAT(add.err, HasSubstr("zone trusted"));
  ExpectBothWays();
  host().Must({"firewall-cmd", "--reload"});
  ExpectBothWays();
  host().Must({"firewall-cmd", "--complete-reload"});
  ExpectBothWays();
  EXPECT_EQ(Check(PublishingConfig(), add.json).exit_code, 0);
  EXPECT_EQ(RunPlugin("DEL", PublishingConfig()).exit_code, 0);
}

// What the operator has set gets advice. The installed release may not know the setting, so the
// rules are made as firewalld 2.3 makes them with it.
TEST_F(Firewalld, WithStrictForwardPortsIsNamedByAddDoctorAndInspect) {
  const std::string text = "firewalld rejects published ports: it has StrictForwardPorts=yes";
  EXPECT_THAT(MustRun("ADD", Publish({Port(8080, 80)}, DualStack())), Err(Not(HasSubstr(text))));
  ExpectPublished(container());
  host().Nft(
      "table inet firewalld { chain filter_FORWARD_dnat { reject with icmpx admin-prohibited; }; "
      "}; "
      "insert rule inet firewalld filter_FORWARD ct status dnat jump filter_FORWARD_dnat");
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "");
  EXPECT_EQ(TcpText(outside(), kHostIp6, 8080), "");
  for (const char* const way : {"8080", "8080 -from 2001:db8:100::2"}) {
    const json cause = CauseOf(way);
    EXPECT_EQ(cause.at("fix"), "") << cause;
    EXPECT_THAT(cause.at("advice").get<std::string>(), HasSubstr("set StrictForwardPorts=no"))
        << way;
  }
  EXPECT_THAT(RunLine("doctor forward.foreign").out,
              HasSubstr(Cat("WARN  forward.foreign       ", text)));
  Node& other = AddContainer("other");
  EXPECT_THAT(MustRun("ADD", Publish({Port(8081, 80)}), As("other", other)),
              Err(AllOf(HasSubstr(text), HasSubstr("StrictForwardPorts=no"))));
  EXPECT_THAT(MustRun("ADD", Config(), As("third", AddContainer("third"))),
              Err(Not(HasSubstr(text))));
}

// In its own words, so that the port stays open after a reload.
TEST_F(Firewalld, IsOpenedForAServiceOfTheNode) {
  host().Must(Words("firewall-cmd --permanent --zone=internal --add-interface=nomad"));
  host().Must(Words("firewall-cmd --reload"));
  Attach(Publish({Port(8080, 80)}, DualStack()));
  for (const std::uint16_t port : {std::uint16_t{4646}, std::uint16_t{4647}}) {
    Serve(host(), Protocol::kTcp, {"::"}, port, "node");
    ASSERT_EQ(TcpText(container(), kBridgeIp4, port), "");
  }
  const json cause = CauseOf(Cat("alloc-1 -to ", kBridgeIp4, ":4646"));
  host().Shell(cause.at("fix"));
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(TcpText(container(), kBridgeIp4, 4646), "node") << cause;
    EXPECT_EQ(TcpText(container(), kBridgeIp6, 4646), "node");
    EXPECT_EQ(TcpText(container(), kBridgeIp4, 4647), "") << "nothing else";
    if (round == 0) {
      host().Must(Words("firewall-cmd --reload"));
    }
  }
}

// Which zone may send to which is for the operator to say.
TEST_F(Firewalld, GetsAdviceForTheZoneThatTheOperatorChose) {
  host().Must(Words("firewall-cmd --zone=internal --add-interface=nomad"));
  Attach(PublishingConfig());
  Serve(outside(), Protocol::kTcp, {kOutsideIp4}, 80, "outside");
  ASSERT_EQ(TcpText(container(), kOutsideIp4, 80), "");
  const json cause = CauseOf(Cat("alloc-1 -to ", kOutsideIp4, ":80"));
  EXPECT_EQ(cause.at("fix"), "");
  EXPECT_THAT(cause.at("advice").get<std::string>(), HasSubstr("firewall-cmd --get-active-zones"));
}

TEST_F(Firewalld, KeepsTheZoneThatTheOperatorChose) {
  host().Must({"firewall-cmd", "--zone=internal", "--add-interface=nomad"});
  Attach(PublishingConfig());
  EXPECT_THAT(host().Must({"firewall-cmd", "--get-zone-of-interface=nomad"}),
              HasSubstr("internal"));
}

}  // namespace
}  // namespace nomad_bridge::test
