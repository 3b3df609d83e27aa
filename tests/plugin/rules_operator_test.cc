// Our rules beside those of others: the operator's chain, iptables and nft, and the reference
// firewall plugin.

#include "tests/support/world.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kJumpToUs =
    "-A FORWARD -m comment --comment \"CNI firewall plugin rules\" -j CNI-FORWARD";
constexpr const char* kJumpToAdmin =
    "-A CNI-FORWARD -m comment --comment \"CNI firewall plugin admin overrides\" -j NOMAD-ADMIN";
constexpr const char* kAccept =
    "-A CNI-FORWARD -m mark --mark 0x1000/0x1000 -m comment --comment \"nomad-bridge: accepted by "
    "table inet nomad-bridge\" -j ACCEPT";
constexpr const char* kFirewallPlugin = "/usr/lib/cni/firewall";

// The same two as commands, "-A" or "-C".
std::vector<std::string> Jump(const std::string& program,
                              const std::string& command,
                              bool to_admin) {
  return {program,
          command,
          to_admin ? "CNI-FORWARD" : "FORWARD",
          "-m",
          "comment",
          "--comment",
          to_admin ? "CNI firewall plugin admin overrides" : "CNI firewall plugin rules",
          "-j",
          to_admin ? "NOMAD-ADMIN" : "CNI-FORWARD"};
}

class Operator : public World {
 protected:
  [[nodiscard]] static json Web(const json& changes = {}) {
    return Publish({Port(8080, 80)}, DualStack(changes));
  }
  json AddWeb(const json& changes = {}) {
    json add = Attach(Web(changes), As("web", container()));
    Serve(container(), Protocol::kTcp, {"172.26.64.2", "fd00:26::2"}, 80, "web");
    return add;
  }

  // The whole state of nf_tables, for before and after.
  [[nodiscard]] std::string Ruleset() { return TakeSnapshot().Lines("host nft"); }
};

// ---- the operator's chain

TEST_F(Operator, ChainIsTraversedBeforeOurAcceptRule) {
  AddWeb();
  EXPECT_THAT(RulesWith("-A "), ElementsAre(kJumpToUs, kJumpToAdmin, kAccept));
  EXPECT_THAT(RulesWith("-A ", "ip6tables"), ElementsAre(kJumpToUs, kJumpToAdmin, kAccept));
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "web");
  EXPECT_EQ(TcpText(outside(), kHostIp6, 8080), "web");
  host().Must({"iptables", "-A", "NOMAD-ADMIN", "-d", "172.26.64.0/20", "-j", "DROP"});
  host().Must({"ip6tables", "-A", "NOMAD-ADMIN", "-d", "fd00:26::/64", "-j", "DROP"});
  EXPECT_TRUE(IsSilent(outside(), {.to = kHostIp4, .port = 8080}));
  EXPECT_TRUE(IsSilent(outside(), {.to = kHostIp6, .port = 8080}));
}

TEST_F(Operator, ChainMadeBeforeUsKeepsItsRules) {
  host().Must({"iptables", "-N", "NOMAD-ADMIN"});
  host().Must({"iptables", "-A", "NOMAD-ADMIN", "-s", "172.26.64.2/32", "-j", "DROP"});
  AddWeb();
  EXPECT_THAT(RulesWith("-A NOMAD-ADMIN"), ElementsAre("-A NOMAD-ADMIN -s 172.26.64.2/32 -j DROP"));
  Serve(outside(), Protocol::kTcp, {kOutsideIp4}, 9000, "outside");
  EXPECT_TRUE(IsSilent(container(), {.to = kOutsideIp4, .port = 9000}));
}

TEST_F(Operator, ChainIsNeverTouchedAgain) {
  const json add = AddWeb();
  host().Must({"iptables", "-A", "NOMAD-ADMIN", "-s", "10.9.9.0/24", "-j", "DROP"});
  host().Must(Words("iptables -A NOMAD-ADMIN -m comment --comment mine -j RETURN"));
  const std::vector<std::string> mine = RulesWith("-A NOMAD-ADMIN");
  ASSERT_THAT(mine, SizeIs(2));
  const Node& other = AddContainer("other");
  MustCheck(Web(), add, As("web", container()));
  Attach(DualStack(), As("other", other));
  Detach(DualStack(), As("other", other));
  Detach(Web(), As("web", container()));
  EXPECT_EQ(RulesWith("-A NOMAD-ADMIN"), mine);
}

TEST_F(Operator, ChainMayHaveAnotherName) {
  host().Must({"iptables", "-P", "FORWARD", "DROP"});
  AddWeb({{"iptablesAdminChainName", "OPS"}});
  EXPECT_THAT(RulesWith("-j OPS"), SizeIs(1));
  EXPECT_THAT(RulesWith("NOMAD-ADMIN"), IsEmpty());
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "web");
  host().Must({"iptables", "-A", "OPS", "-j", "DROP"});
  EXPECT_TRUE(IsSilent(outside(), {.to = kHostIp4, .port = 8080}));
}

TEST_F(Operator, ChainOfEachNetworkIsTraversed) {
  AddWeb();
  Attach(DualStack({{"name", "second"},
                    {"bridge", "second"},
                    {"iptablesAdminChainName", "OPS"},
                    {"ipam", {{"ranges", {{{{"subnet", "10.77.0.0/24"}}}}}}}}),
         As("other", AddContainer("other")));
  EXPECT_THAT(RulesWith("-A CNI-FORWARD"), ElementsAre(HasSubstr("-j OPS"), kJumpToAdmin, kAccept));
}

// ---- the mark

TEST_F(Operator, MayChooseAnotherMarkBit) {
  DropForwarded();
  AddWeb({{"acceptMarkBit", 31}});
  EXPECT_THAT(RulesWith("--mark"), ElementsAre(HasSubstr("--mark 0x80000000/0x80000000")));
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "web");
  EXPECT_EQ(TcpText(outside(), kHostIp6, 8080), "web");
}

TEST_F(Operator, GetsAnErrorForNetworksThatDisagreeAboutTheMarkBit) {
  AddWeb();
  const std::string before = Ruleset();
  EXPECT_THAT(RunPlugin("ADD",
                        DualStack({{"name", "second"}, {"acceptMarkBit", 20}}),
                        As("other", AddContainer("other"))),
              Exits(1,
                    Msg(AllOf(HasSubstr("acceptMarkBit is 20 in network 'second'"),
                              HasSubstr("12 in network 'nomad'")))));
  EXPECT_EQ(Ruleset(), before);
}

TEST_F(Operator, MayChangeTheMarkBitOnceTheOldOneIsUnused) {
  AddWeb();
  Detach(Web(), As("web", container()));
  host().Must({"iptables", "-P", "FORWARD", "DROP"});
  Attach(Web({{"acceptMarkBit", 20}}), As("web", container()));
  EXPECT_THAT(RulesWith("--mark"), ElementsAre(HasSubstr("--mark 0x100000/0x100000")));
  EXPECT_THAT(host().Must({"nft", "list", "chain", "inet", "nomad-bridge", "forward"}),
              AllOf(HasSubstr("0x00100000"), Not(HasSubstr("0x00001000"))));
}

// ---- the tools of the trade

TEST_F(Operator, SavesAndRestoresIptables) {
  const json add = AddWeb();
  for (const std::string family : {"iptables", "ip6tables"}) {
    const std::string before = host().Must({family, "-S"});
    host().Must({family + "-restore"}, host().Must({family + "-save"}));
    EXPECT_EQ(host().Must({family, "-S"}), before) << family;
  }
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "web");
  const std::string restored = Ruleset();
  EXPECT_THAT(MustCheck(Web(), add, As("web", container())), Err(Not(HasSubstr("repaired"))));
  EXPECT_EQ(Ruleset(), restored) << "no rule of ours may be there twice";
  Attach(DualStack(), As("other", AddContainer("other")));
  EXPECT_THAT(RulesWith("-A "), ElementsAre(kJumpToUs, kJumpToAdmin, kAccept));
}

TEST_F(Operator, LoadsWhatNftLists) {
  const json add = AddWeb();
  const std::string before = Ruleset();
  host().Nft("flush ruleset\n" + host().Must({"nft", "list", "ruleset"}));
  EXPECT_EQ(Ruleset(), before);
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "web");
  EXPECT_THAT(MustCheck(Web(), add, As("web", container())), Err(Not(HasSubstr("repaired"))));
  EXPECT_EQ(Ruleset(), before);
}

TEST_F(Operator, ReadsOurRulesWithoutAWarning) {
  AddWeb();
  for (const std::string program : {"iptables", "ip6tables", "iptables-save", "ip6tables-save"}) {
    EXPECT_THAT(host().Run(program.ends_with("save") ? std::vector<std::string>{program}
                                                     : std::vector<std::string>{program, "-S"}),
                Exits(0, Err(""), Out(Not(HasSubstr("incompatible")))))
        << program;
  }
}

TEST_F(Operator, FindsOurRulesAsTheReferencePluginLooksForThem) {
  AddWeb();
  for (const std::string program : {"iptables", "ip6tables"}) {
    host().Must(Jump(program, "-C", false));
    host().Must(Jump(program, "-C", true));
  }
}

TEST_F(Operator, MayHaveMadeTheSameChainsByHand) {
  for (const std::string program : {"iptables", "ip6tables"}) {
    host().Must({program, "-N", "CNI-FORWARD"});
    host().Must({program, "-N", "NOMAD-ADMIN"});
    host().Must(Jump(program, "-A", false));
    host().Must(Jump(program, "-A", true));
  }
  AddWeb();
  EXPECT_THAT(RulesWith("-A "), ElementsAre(kJumpToUs, kJumpToAdmin, kAccept));
  EXPECT_THAT(RulesWith("-A ", "ip6tables"), ElementsAre(kJumpToUs, kJumpToAdmin, kAccept));
}

class BesideTheReferencePlugin : public Operator {
 protected:
  // The reference firewall plugin's `verb` for another container of the node.
  void RunReference(const std::string& verb) {
    const json config = {{"cniVersion", "1.0.0"},
                         {"name", "old"},
                         {"type", "firewall"},
                         {"backend", "iptables"},
                         {"iptablesAdminChainName", "NOMAD-ADMIN"},
                         {"prevResult",
                          {{"cniVersion", "1.0.0"},
                           {"interfaces", {{{"name", "eth0"}, {"sandbox", container().path()}}}},
                           {"ips", {{{"interface", 0}, {"address", "172.26.70.9/20"}}}}}}};
    ASSERT_THAT(Execute({.argv = {kFirewallPlugin},
                         .input = config.dump(),
                         .variables = {{"CNI_COMMAND", verb},
                                       {"CNI_CONTAINERID", "old"},
                                       {"CNI_NETNS", container().path()},
                                       {"CNI_IFNAME", "eth0"},
                                       {"CNI_PATH", "/usr/lib/cni"}}}),
                Exits(0));
  }
  void ExpectNoneTwice() {
    EXPECT_THAT(RulesWith("-j CNI-FORWARD"), SizeIs(1));
    EXPECT_THAT(RulesWith("-j NOMAD-ADMIN"), SizeIs(1));
    EXPECT_THAT(RulesWith("--mark 0x1000/0x1000"), SizeIs(1));
  }
};

TEST_F(BesideTheReferencePlugin, NoRuleIsThereTwiceIfItCameFirst) {
  RunReference("ADD");
  AddWeb();
  ExpectNoneTwice();
  EXPECT_THAT(RulesWith("172.26.70.9"), SizeIs(2));
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "web");
}

TEST_F(BesideTheReferencePlugin, NoRuleIsThereTwiceIfItCameSecond) {
  const json add = AddWeb();
  RunReference("ADD");
  RunReference("CHECK");
  ExpectNoneTwice();
  EXPECT_THAT(MustCheck(Web(), add, As("web", container())), Err(Not(HasSubstr("repaired"))));
  RunReference("DEL");
  ExpectNoneTwice();
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "web");
}

// ---- what cannot be had

TEST_F(Operator, GetsAnErrorForConditionsThatNamesTheChainToUse) {
  const Snapshot before = TakeSnapshot();
  for (const std::string key : {"conditionsV4", "conditionsV6"}) {
    const Outcome add =
        RunPlugin("ADD", Web({{key, {"-s", "192.0.2.0/24"}}}), As("web", container()));
    EXPECT_EQ(add.exit_code, 1);
    EXPECT_THAT(add.json.dump(),
                AllOf(HasSubstr(key), HasSubstr("unsupported"), HasSubstr("NOMAD-ADMIN")));
  }
  EXPECT_TRUE(Unchanged(before, TakeSnapshot()));
}

// The kernel of a test need not have SCTP sockets; the map is what decides.
TEST_F(Operator, FindsSctpInTheMap) {
  Attach(Publish({Port(5060, 5061, "sctp"), Port(5062, 5063, "SCTP", kHostIp4)}, DualStack()),
         As("web", container()));
  EXPECT_THAT(Elements("port4").dump(),
              AllOf(HasSubstr("\"sctp\",5060"), HasSubstr("\"172.26.64.2\",5061")));
  EXPECT_THAT(Elements("port6").dump(),
              AllOf(HasSubstr("\"sctp\",5060"), HasSubstr("\"fd00:26::2\",5061")));
  EXPECT_THAT(Elements("hostip4").dump(), HasSubstr("\"198.51.100.1\",\"sctp\",5062"));
}

// ---- the operator's marks

// Two uplinks, and answers go out by the one that the question came in by: the usual recipe.
TEST_F(Operator, SavesOnlyTheOperatorsConnectionMarks) {
  Node& second = AddContainer("second");
  host().Shell(R"(
ip link add second index 71 type veth peer name eth0 netns second
sysctl -qw net.ipv6.conf.second.accept_dad=0
ip address add 192.0.2.1/24 dev second
ip address add 2001:db8:200::1/64 dev second nodad
ip link set second up
sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.second.rp_filter=0
for family in -4 -6; do
  ip $family rule add pref 10 lookup main suppress_prefixlength 0
  ip $family rule add pref 20 fwmark 2 lookup 200
done
ip route add default via 192.0.2.2 table 200
ip -6 route add default via 2001:db8:200::2 table 200
for tables in iptables ip6tables; do
  $tables -t mangle -A PREROUTING -j CONNMARK --restore-mark
  $tables -t mangle -A PREROUTING -i second -m mark --mark 0 -j MARK --set-mark 2
  $tables -t mangle -A POSTROUTING -j CONNMARK --save-mark
done
)");
  second.Shell(R"(
sysctl -qw net.ipv6.conf.eth0.accept_dad=0
ip address add 192.0.2.2/24 dev eth0
ip address add 2001:db8:200::2/64 dev eth0 nodad
ip address add 203.0.113.9/32 dev lo
ip address add 2001:db8:9::9/128 dev lo nodad
ip link set eth0 up
)");
  AddWeb();
  for (const auto& [host_ip, far] :
       {std::pair("192.0.2.1", "203.0.113.9"), std::pair("2001:db8:200::1", "2001:db8:9::9")}) {
    EXPECT_EQ(Ask(second, {.to = host_ip, .port = 8080, .from = far}), (Reply{"web", far}));
  }
  EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "web");
  EXPECT_THAT(host().Must(Words("conntrack -L -p tcp --orig-dst 192.0.2.1")), HasSubstr("mark=2 "));
}

// As the filters that come after ours see it, whatever else is in the mark.
TEST_F(Operator, SeesOurMarkOnlyInForwardChains) {
  AddWeb();
  host().Nft(
      "table inet look {\n"
      "chain filter { type filter hook forward priority 10;\n"
      "meta mark & 0x1000 == 0x1000 counter comment \"forward\"\n}\n"
      "chain behind { type filter hook postrouting priority -300;\n"
      "meta mark & 0x1000 == 0x1000 counter comment \"behind\"\n}\n}");
  ASSERT_EQ(TcpText(outside(), kHostIp4, 8080), "web");
  const std::string counters = host().Must(Words("nft list table inet look"));
  EXPECT_THAT(counters, Not(HasSubstr("packets 0 bytes 0 comment \"forward\"")));
  EXPECT_THAT(counters, HasSubstr("packets 0 bytes 0 comment \"behind\""));
}

}  // namespace
}  // namespace nomad_bridge::test
