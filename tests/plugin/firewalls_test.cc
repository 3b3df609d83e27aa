// Other firewalls on the same node, and ingressPolicy between networks.
#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

class ForeignFirewall : public CliWorld {
 protected:
  static json PublishingConfig() { return Publish({Port(8080, 80)}); }

  void ExpectBothWays() {
    ExpectPublished(container());
    EXPECT_TRUE(Ping(container(), kOutsideIp4));
  }

  Outcome Check(const json& result) {
    return RunPlugin("CHECK", WithResult(PublishingConfig(), result));
  }
};

// ---- iptables-legacy

TEST_F(ForeignFirewall, OfIptablesLegacyThatDropsLetsUsThrough) {
  host().Must({"iptables-legacy", "-P", "FORWARD", "DROP"});
  host().Must({"iptables-legacy", "-N", "NOMAD-ADMIN"});
  host().Must({"iptables-legacy", "-A", "NOMAD-ADMIN", "-p", "tcp", "--dport", "25", "-j", "DROP"});

  const json result = Attach(PublishingConfig());

  ExpectBothWays();
  const std::string once = host().Must({"iptables-legacy", "-S"});
  EXPECT_THAT(once, HasSubstr("-A NOMAD-ADMIN -p tcp"));
  Attach(Config(), As("other", AddContainer("other")));
  EXPECT_EQ(host().Must({"iptables-legacy", "-S"}), once) << "nothing twice";
  host().Must({"iptables-legacy", "-F"});
  EXPECT_EQ(Check(result).exit_code, 0);
  ExpectBothWays();
}

// No generation of nf_tables tells of it.
TEST_F(ForeignFirewall,
       OfIptablesLegacyThatAppearsLaterOrIsFlushedLetsUsThroughAfterTheNextCommand) {
  const json config = DualStack();
  const json add = Attach(config);
  ASSERT_TRUE(Ping(container(), kOutsideIp4));
  host().Must({"iptables-legacy", "-P", "FORWARD", "DROP"});
  host().Must({"ip6tables-legacy", "-P", "FORWARD", "DROP"});
  const Variables other = As("other", AddContainer("other"));
  MustRun("ADD", config, other);
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
  EXPECT_TRUE(Ping(container(), kOutsideIp6));

  const std::string rules = host().Must({"iptables-legacy", "-S"});
  host().Must({"iptables-legacy", "-F"});
  MustCheck(config, add);
  EXPECT_EQ(host().Must({"iptables-legacy", "-S"}), rules);

  host().Must({"iptables-legacy", "-F", "CNI-FORWARD"});
  Detach(config, other);
  MustRun("ADD", config, other);
  EXPECT_EQ(host().Must({"iptables-legacy", "-S"}), rules);
  EXPECT_TRUE(Ping(container(), kOutsideIp4));

  for (const char* const line : {"reconcile", "reconcile -if-changed"}) {
    static_cast<void>(RunLine("reconcile -if-changed"));  // nothing has changed for the next one
    host().Must({"iptables-legacy", "-F"});
    const Outcome repair = RunLine(line);
    EXPECT_EQ(host().Must({"iptables-legacy", "-S"}), rules) << line << repair;
  }
}

TEST_F(ForeignFirewall, OfIptablesLegacyIsNotCreatedIfUnused) {
  Attach(PublishingConfig());
  EXPECT_THAT(FindFile("/proc/net/ip_tables_names").value_or(""), Not(HasSubstr("filter")));
}

// With the capabilities of the unit, and with too few: what a tool cannot tell is neither said to be
// missing nor remembered as right.
TEST_F(ForeignFirewall, OfIptablesLegacyIsRepairedByTheUnitAndNotJudgedWithoutRights) {
  const auto reconcile_with = [&](const std::string& capabilities) {
    Command command = Line({"reconcile"});
    const std::vector<std::string> setpriv = {"setpriv", Cat("--bounding-set=-all", capabilities)};
    command.argv.insert(command.argv.begin(), setpriv.begin(), setpriv.end());
    return Execute(command);
  };
  std::string of_unit;
  for (const std::string& line :
       Lines(FindFile(NOMAD_BRIDGE_UNITS "/nomad-bridge-reconcile.service").value())) {
    if (const std::string key = "CapabilityBoundingSet="; line.starts_with(key)) {
      for (const std::string& name : Words(line.substr(key.size()))) {
        of_unit += Cat(",+", Lower(name.substr(std::string("CAP_").size())));
      }
    }
  }
  host().Must({"iptables-legacy", "-P", "FORWARD", "DROP"});
  Attach(PublishingConfig());
  const std::string rules = host().Must({"iptables-legacy", "-S"});
  host().Must(Words("nft add table inet foreign"));

  const Outcome without = reconcile_with(",+net_admin,+sys_admin,+dac_read_search");
  EXPECT_THAT(without.err, HasSubstr("iptables-legacy failed"));
  EXPECT_THAT(without.err, Not(HasSubstr("has no rule")));
  EXPECT_THAT(RunLine("reconcile -if-changed").err, Not(HasSubstr("has no rule")));

  host().Must({"iptables-legacy", "-F"});
  static_cast<void>(reconcile_with(",+net_admin,+sys_admin,+dac_read_search"));
  Attach(Config(), As("other", AddContainer("other")));
  EXPECT_EQ(host().Must({"iptables-legacy", "-S"}), rules) << "not remembered as there";

  host().Must({"iptables-legacy", "-F"});
  EXPECT_THAT(reconcile_with(of_unit).err, HasSubstr("has no rule"));
  EXPECT_EQ(host().Must({"iptables-legacy", "-S"}), rules);
  ExpectBothWays();
}

// ---- foreign base chains

struct Drop : Named {
  const char* chain;
};

class LaterDrop : public ForeignFirewall, public ::testing::WithParamInterface<Drop> {};

TEST_P(LaterDrop, IsReportedByAddAndCheckAsLongAsItIsThere) {
  host().Must({"nft", "-f", "-"},
              Cat("table inet mine {\nchain late {\n", GetParam().chain, "\n}\n}\n"));

  const Outcome add = MustRun("ADD", PublishingConfig());
  EXPECT_THAT(add.err, HasSubstr("chain late of table inet mine"));
  EXPECT_THAT(add.err, HasSubstr("0x1000"));
  EXPECT_THAT(Check(add.json).err, HasSubstr("chain late of table inet mine"));
  host().Must({"nft", "delete", "table", "inet", "mine"});
  EXPECT_THAT(Check(add.json).err, Not(HasSubstr("mine")));
}

INSTANTIATE_TEST_SUITE_P(
    Chains,
    LaterDrop,
    ::testing::Values(Drop{"ByPolicy", "type filter hook forward priority 10; policy drop;"},
                      Drop{"ByItsLastRule",
                           "type filter hook forward priority 10; ct state established accept; "
                           "counter reject;"},
                      Drop{"ByARuleThatLogs",
                           "type filter hook forward priority 10; ct state established accept; "
                           "counter log prefix \"late: \" meta nftrace set 0 drop;"},
                      Drop{"ByAJump",
                           "type filter hook forward priority 10; jump last; }; chain last { "
                           "log drop;"},
                      Drop{"ByAGoto",
                           "type filter hook forward priority 10; policy drop; goto last; }; "
                           "chain last { ct state established accept;"},
                      Drop{"BeforeAnAccept",
                           "type filter hook forward priority 10; ct state established accept; "
                           "drop; meta mark and 0x1000 == 0x1000 accept;"}),
    kNameOf);

TEST_F(ForeignFirewall, ThatAcceptsOurMarkLetsUsThrough) {
  host().Must({"nft", "-f", "-"},
              R"(table inet mine {
  chain late {
    type filter hook forward priority 10; policy drop;
    meta mark & 0x1000 == 0x1000 accept
  }
})");
  Attach(PublishingConfig());
  ExpectBothWays();
}

TEST_F(ForeignFirewall, ThatAcceptsOurMarkInAChainThatItJumpsToLetsUsThrough) {
  host().Must({"nft", "-f", "-"},
              R"(table inet mine {
  chain opened {
    meta mark & 0x1000 == 0x1000 counter log accept
  }
  chain late {
    type filter hook forward priority 10; policy drop;
    jump opened
    drop
  }
})");
  EXPECT_THAT(MustRun("ADD", PublishingConfig()), Err(Not(HasSubstr("mine"))));
  ExpectBothWays();
}

// As the warning says it: inserted, since a rule behind the drop does nothing.
TEST_F(ForeignFirewall, ThatDropsIsOpenedByTheCommandThatDoctorNames) {
  host().Must({"nft", "-f", "-"},
              R"(table inet mine {
  chain late {
    type filter hook forward priority 10;
    log prefix "late: " drop
  }
})");
  Attach(PublishingConfig());
  EXPECT_FALSE(Ping(container(), kOutsideIp4));
  const std::string rule = "inet mine late meta mark and 0x1000 == 0x1000 accept";
  EXPECT_THAT(RunLine("doctor").out, HasSubstr(Cat("fix: nft insert rule ", rule)));
  EXPECT_THAT(RunLine("inspect alloc-1").out, HasSubstr("chain late of table inet mine"));
  host().Must({"sh", "-c", Cat("nft add rule ", rule)});
  EXPECT_THAT(RunLine("doctor").out, HasSubstr("chain late of table inet mine"));
  host().Must({"sh", "-c", Cat("nft insert rule ", rule)});
  EXPECT_THAT(RunLine("doctor").out, Not(HasSubstr("chain late of table inet mine")));
  ExpectBothWays();
}

TEST_F(ForeignFirewall, ThatDropsBeforeUsIsReportedUntilItAcceptsTheBridge) {
  host().Must({"nft", "-f", "-"},
              R"(table inet mine {
  chain early {
    type filter hook forward priority -10; policy drop;
    meta mark & 0x1000 == 0x1000 accept
  }
  chain in {
    type filter hook input priority 10; policy drop;
  }
})");
  const Outcome add = MustRun("ADD", PublishingConfig());
  EXPECT_THAT(add.err, HasSubstr("chain early of table inet mine (policy drop) comes before ours"));
  EXPECT_THAT(add.err, Not(HasSubstr("chain in")));
  EXPECT_FALSE(Ping(container(), kOutsideIp4));
  for (const char* const way : {"iifname", "oifname"}) {
    host().Must({"nft", "add", "rule", "inet", "mine", "early", way, "nomad", "accept"});
  }
  EXPECT_THAT(Check(add.json), Err(Not(HasSubstr("mine"))));
  ExpectBothWays();
}

// ufw's layout: its chains in front, policy DROP in iptables' own tables.
TEST_F(ForeignFirewall, OfUfwLetsUsThrough) {
  host().Must({"iptables-restore"}, R"(*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:ufw-before-forward - [0:0]
:ufw-after-forward - [0:0]
:ufw-reject-forward - [0:0]
-A INPUT -i lo -j ACCEPT
-A FORWARD -j ufw-before-forward
-A FORWARD -j ufw-after-forward
-A FORWARD -j ufw-reject-forward
-A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-reject-forward -j REJECT
COMMIT
)");
  Attach(PublishingConfig());
  ExpectBothWays();
}

// Docker's chains and policy.
TEST_F(ForeignFirewall, OfDockerLetsUsThrough) {
  host().Must({"iptables-restore"}, R"(*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:DOCKER - [0:0]
:DOCKER-USER - [0:0]
:DOCKER-ISOLATION-STAGE-1 - [0:0]
:DOCKER-ISOLATION-STAGE-2 - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -j DOCKER-ISOLATION-STAGE-1
-A FORWARD -o docker0 -j DOCKER
-A DOCKER-ISOLATION-STAGE-1 -i docker0 ! -o docker0 -j DOCKER-ISOLATION-STAGE-2
-A DOCKER-ISOLATION-STAGE-1 -j RETURN
-A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP
-A DOCKER-USER -j RETURN
COMMIT
)");
  Attach(PublishingConfig());
  ExpectBothWays();
}

// ---- firewalld, really running

class Firewalld : public ForeignFirewall {
 protected:
  Firewalld() {
    host().Must({"mount", "-t", "tmpfs", "tmpfs", "/etc/firewalld"});
    host().Must({"mount", "-t", "tmpfs", "tmpfs", "/var/log"});
    EnsureDirectory("/run/dbus");
    bus_.emplace(Process::Start({.argv = {"dbus-daemon", "--system", "--nofork", "--nopidfile"}}));
    EXPECT_TRUE(Soon([] { return fs::exists("/run/dbus/system_bus_socket"); }));
    daemon_.emplace(Process::Start({.argv = {"firewalld", "--nofork", "--nopid"}}));
    EXPECT_TRUE(Soon([&] { return host().Run({"firewall-cmd", "--state"}).exit_code == 0; }));
  }

 private:
  std::optional<Process> bus_;
  std::optional<Process> daemon_;
};

TEST_F(Firewalld, LetsUsThroughAlsoAfterItsReloads) {
  const Outcome add = MustRun("ADD", PublishingConfig());
  EXPECT_THAT(add.err, HasSubstr("zone trusted"));
  ExpectBothWays();
  host().Must({"firewall-cmd", "--reload"});
  ExpectBothWays();
  host().Must({"firewall-cmd", "--complete-reload"});
  ExpectBothWays();
  EXPECT_EQ(Check(add.json).exit_code, 0);
  EXPECT_EQ(RunPlugin("DEL", PublishingConfig()).exit_code, 0);
}

TEST_F(Firewalld, KeepsTheZoneThatTheOperatorChose) {
  host().Must({"firewall-cmd", "--zone=internal", "--add-interface=nomad"});
  Attach(PublishingConfig());
  EXPECT_THAT(host().Must({"firewall-cmd", "--get-zone-of-interface=nomad"}),
              HasSubstr("internal"));
}

// ---- ingressPolicy

// Whether rules of the IP families see packets within one bridge is not ours to say. The parameter:
// bridge-nf-call-iptables.
class IngressPolicy : public ForeignFirewall, public ::testing::WithParamInterface<const char*> {
 protected:
  IngressPolicy() {
    host().SetSysctl("net/bridge/bridge-nf-call-iptables", GetParam());
    host().SetSysctl("net/bridge/bridge-nf-call-ip6tables", GetParam());
  }

  static json Network(const std::string& name, const std::string& subnet, const char* policy) {
    return {{"cniVersion", "1.0.0"},
            {"name", name},
            {"type", "nomad-bridge"},
            {"bridge", name},
            {"ingressPolicy", policy},
            {"ipam", {{"subnet", subnet}}}};
  }
  // Two allocations of net a, one of net b.
  void Make(const char* a, const char* b) {
    first_ = AddressOf(Attach(Network("neta", "10.1.0.0/24", a), As("a1", container())));
    second_ = AddressOf(Attach(Network("neta", "10.1.0.0/24", a), As("a2", neighbour_)));
    third_ = AddressOf(Attach(Network("netb", "10.2.0.0/24", b), As("b1", other_)));
  }

  Node& neighbour_ = AddContainer("neighbour");
  Node& other_ = AddContainer("other");
  std::string first_;
  std::string second_;
  std::string third_;
};

TEST_P(IngressPolicy, OpenNetworksReachEachOther) {
  Make("open", "open");
  EXPECT_TRUE(Ping(container(), third_));
  EXPECT_TRUE(Ping(other_, first_));
}

TEST_P(IngressPolicy, SameBridgeKeepsOutOtherBridgesThatAreNotOpen) {
  Make("same-bridge", "same-bridge");
  EXPECT_TRUE(Ping(container(), second_));
  EXPECT_FALSE(Ping(container(), third_));
  EXPECT_FALSE(Ping(other_, first_));
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
}

// As on two nodes.
TEST_P(IngressPolicy, SameBridgeLetsOthersInByAPublishedPort) {
  Make("same-bridge", "same-bridge");
  Detach(Network("netb", "10.2.0.0/24", "same-bridge"), As("b1", other_));
  Attach(Publish({Port(8080, 80)}, Network("netb", "10.2.0.0/24", "same-bridge")),
         As("b1", other_));
  Serve(other_, Protocol::kTcp, {"0.0.0.0"}, 80, "page");
  EXPECT_EQ(TcpText(container(), kHostIp4, 8080), "page");
  EXPECT_FALSE(Ping(container(), third_));
}

TEST_P(IngressPolicy, IsolatedKeepsOutItsOwnBridgeToo) {
  Make("isolated", "isolated");
  EXPECT_FALSE(Ping(container(), second_));
  EXPECT_FALSE(Ping(container(), third_));
  EXPECT_TRUE(Ping(container(), "10.1.0.1")) << "the gateway";
  EXPECT_TRUE(Ping(container(), kOutsideIp4));
}

TEST_P(IngressPolicy, IsolatedHoldsForIpv6) {
  const json config = DualStack({{"ingressPolicy", "isolated"}});
  Attach(config, As("a1", container()));
  Attach(config, As("a2", neighbour_));
  EXPECT_FALSE(Ping(container(), "fd00:26::3"));
  EXPECT_TRUE(Ping(container(), kBridgeIp6));
  EXPECT_TRUE(Ping(container(), kOutsideIp6));
}

TEST_P(IngressPolicy, IsolatedIsRepairedAndGoesWithTheAllocation) {
  Make("isolated", "open");
  host().Must({"nft", "flush", "ruleset"});
  Attach(Network("netb", "10.2.0.0/24", "open"), As("b2", AddContainer("more")));
  EXPECT_FALSE(Ping(container(), second_));
  for (const auto& [id, node] :
       {std::pair<std::string, Node*>{"a1", &container()}, {"a2", &neighbour_}}) {
    Detach(Network("neta", "10.1.0.0/24", "isolated"), As(id, *node));
  }
  EXPECT_THAT(host().Must(Words("nft list set bridge nomad-bridge isolated")),
              Not(HasSubstr("elements")));
}

// The five names in a list, and the firewall behind another plugin's bridge.
TEST_P(IngressPolicy, IsolatedHoldsUnderTheReferenceNames) {
  const json config = {{"cniVersion", "1.0.0"},
                       {"name", "neta"},
                       {"type", "bridge"},
                       {"bridge", "neta"},
                       {"isGateway", true},
                       {"ingressPolicy", "isolated"},
                       {"ipam", {{"type", "host-local"}, {"subnet", "10.1.0.0/24"}}}};
  std::vector<std::string> addresses;
  for (const auto& [id, node] :
       {std::pair<std::string, Node*>{"a1", &container()}, {"a2", &neighbour_}}) {
    const Outcome bridge = RunPlugin("ADD", config.dump(), As(id, *node), "bridge");
    ASSERT_EQ(bridge.exit_code, 0) << bridge;
    addresses.push_back(AddressOf(bridge.json));
    ASSERT_THAT(RunPlugin("ADD", WithResult(config, bridge.json).dump(), As(id, *node), "firewall"),
                Exits(0));
  }
  EXPECT_FALSE(Ping(container(), addresses[1]));
  EXPECT_TRUE(Ping(container(), "10.1.0.1"));
}

TEST_P(IngressPolicy, IsolatedHoldsBehindTheBridgeOfAnotherPlugin) {
  host().Must(Words("ip link add br9 up type bridge"));
  host().Must(Words("ip address add 10.9.0.1/24 dev br9"));
  int n = 2;
  for (Node* const node : {&container(), &neighbour_}) {
    const std::string veth = Cat("port", n);
    const std::string ip = Cat("10.9.0.", n, "/24");
    host().Must(Words(Cat("ip link add ", veth, " up master br9 type veth peer name eth0 netns ") +
                      node->name()));
    node->Must({"ip", "address", "add", ip, "dev", "eth0"});
    node->Must({"ip", "link", "set", "eth0", "up"});
    const json config = {
        {"cniVersion", "1.0.0"},
        {"name", "net9"},
        {"type", "firewall"},
        {"ingressPolicy", "isolated"},
        {"prevResult",
         {{"cniVersion", "1.0.0"},
          {"interfaces",
           {{{"name", "br9"}}, {{"name", veth}}, {{"name", "eth0"}, {"sandbox", node->path()}}}},
          {"ips", {{{"address", ip}, {"interface", 2}}}}}}};
    ASSERT_THAT(RunPlugin("ADD", config.dump(), As(Cat("c", n), *node), "firewall"), Exits(0));
    ++n;
  }
  EXPECT_FALSE(Ping(container(), "10.9.0.3"));
  EXPECT_TRUE(Ping(container(), "10.9.0.1"));
}

TEST_P(IngressPolicy, IsTheNetworksCurrentOneWhateverItWasBefore) {
  for (const char* const earlier : {"isolated", "same-bridge", "open", "same-bridge"}) {
    const json network = Network("neta", "10.1.0.0/24", earlier);
    Attach(network, As("early", container()));
    Detach(network, As("early", container()));
  }

  Make("isolated", "same-bridge");

  EXPECT_FALSE(Ping(container(), second_));
  EXPECT_FALSE(Ping(other_, first_));
  for (const auto& [id, node] :
       {std::pair<std::string, Node*>{"a1", &container()}, {"a2", &neighbour_}}) {
    Detach(Network("neta", "10.1.0.0/24", "isolated"), As(id, *node));
  }
  const std::string first =
      AddressOf(Attach(Network("neta", "10.1.0.0/24", "open"), As("a3", container())));
  EXPECT_TRUE(Ping(other_, first));
}

TEST_P(IngressPolicy, IsRemovedWhenTheNetworkIsOpenedAgain) {
  Make("same-bridge", "same-bridge");
  EXPECT_FALSE(Ping(container(), third_));
  for (const auto& [id, node] :
       {std::pair<std::string, Node*>{"a1", &container()}, {"a2", &neighbour_}}) {
    Attach(Network("neta", "10.1.0.0/24", "open"), As(id, *node));
  }
  EXPECT_TRUE(Ping(container(), third_));
}

INSTANTIATE_TEST_SUITE_P(BridgeNfCallIptables, IngressPolicy, ::testing::Values("0", "1"));

}  // namespace
}  // namespace nomad_bridge::test
