// Other firewalls on the same node.
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

TEST_F(ForeignFirewall, IptablesLegacyWithADropPolicyIsOpenedForUs) {
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

// Its rules come after our jump, and packets may have other marks besides ours.
TEST_F(ForeignFirewall, IptablesLegacyWithADropRuleIsOpenedForUs) {
  host().Must(Words("iptables-legacy -A FORWARD -j DROP"));
  host().Nft(
      "table inet marks { chain c { type filter hook prerouting priority -150; "
      "meta mark set meta mark or 0x1; }; }");
  Attach(PublishingConfig());
  ExpectBothWays();
}

// No generation of nf_tables tells of it.
TEST_F(ForeignFirewall, IptablesLegacyThatAppearsLaterIsOpenedByTheNextCommand) {
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

  host().Must({"iptables-legacy", "-F"});
  const Outcome repair = RunLine("reconcile");
  EXPECT_EQ(host().Must({"iptables-legacy", "-S"}), rules) << repair;
}

TEST_F(ForeignFirewall, IptablesLegacyIsNotCreatedIfUnused) {
  Attach(PublishingConfig());
  EXPECT_THAT(FindFile("/proc/net/ip_tables_names").value_or(""), Not(HasSubstr("filter")));
}

// Its network namespace is older than its id map, so that some files of /proc belong to nobody in
// it: those that tell of iptables-legacy's tables.
constexpr const char* kInUserNamespace = R"sh(
  unshare -U -n -m sleep 60 &
  holder=$!
  until [ "$(cat /proc/$holder/comm)" = sleep ]; do sleep 0.05; done
  echo "0 100000 65536" >/proc/$holder/gid_map
  echo "0 100000 65536" >/proc/$holder/uid_map
  nsenter -t $holder -U -n -m -S 0 -G 0 sh -c '
    mount -t tmpfs tmpfs /mnt && cp /run/shared/nomad-bridge /mnt || exit 9
    mount -t tmpfs tmpfs /run && mkdir /run/netns && mount -t tmpfs tmpfs /var/lib/cni || exit 9
    ip link set lo up && ip netns add c || exit 9
    cat /proc/net/ip_tables_names 2>/dev/null && exit 9
    run() {
      echo "$CONFIG" | CNI_COMMAND=$1 CNI_CONTAINERID=c CNI_NETNS=/run/netns/c CNI_IFNAME=eth0 \
        CNI_PATH=/nowhere /mnt/nomad-bridge
    }
    run DEL && run ADD && /mnt/nomad-bridge reconcile && run DEL && /mnt/nomad-bridge down'
  code=$?
  kill $holder
  exit $code
)sh";

TEST_F(ForeignFirewall, FailsNoCommandIfItCannotBeRead) {
  EXPECT_THAT(RunLine("install /run/shared"), Exits(0));
  const Outcome outcome =
      host().Run({"env", Cat("CONFIG=", PublishingConfig().dump()), "sh", "-c", kInUserNamespace});
  EXPECT_THAT(outcome, Exits(0, Err(Not(HasSubstr("cannot open '/proc")))));
}

// With the capabilities of the units, and with too few: what a tool cannot tell is neither said to
// be missing nor remembered as right.
class LegacyRules : public ForeignFirewall {
 protected:
  static constexpr const char* kTooFew = "CAP_NET_ADMIN CAP_SYS_ADMIN CAP_DAC_READ_SEARCH";

  LegacyRules() {
    for (const char* const tool : {"iptables-legacy", "ip6tables-legacy"}) {
      host().Must({tool, "-P", "FORWARD", "DROP"});
    }
    Attach(DualStack());
    rules_ = Rules();
  }

  static std::string CapabilitiesOf(const std::string& unit) {
    const std::string key = "CapabilityBoundingSet=";
    for (const std::string& line : Lines(FindFile(Cat(NOMAD_BRIDGE_UNITS "/", unit)).value())) {
      if (line.starts_with(key)) {
        return line.substr(key.size());
      }
    }
    return "";
  }
  Outcome RunWith(const std::string& capabilities, const std::string& line) {
    std::string bounding = "--bounding-set=-all";
    for (const std::string& name : Words(capabilities)) {
      bounding += Cat(",+", Lower(name.substr(std::string("CAP_").size())));
    }
    Command command = Line(Words(line));
    command.argv.insert(command.argv.begin(), {"setpriv", bounding});
    return Execute(command);
  }

  std::string Rules() {
    return Cat(host().Must({"iptables-legacy", "-S"}), host().Must({"ip6tables-legacy", "-S"}));
  }
  void Flush() {
    host().Must({"iptables-legacy", "-F"});
    host().Must({"ip6tables-legacy", "-F"});
  }

  std::string rules_;
};

TEST_F(LegacyRules, AreRepairedByTheUnitsThatRepair) {
  for (const char* const unit : {"nomad-bridge.service", "nomad-bridge-reconcile.service"}) {
    Flush();
    EXPECT_THAT(RunWith(CapabilitiesOf(unit), "reconcile").err, HasSubstr("has no rule")) << unit;
    EXPECT_EQ(Rules(), rules_) << unit;
    EXPECT_TRUE(Ping(container(), kOutsideIp4));
    EXPECT_TRUE(Ping(container(), kOutsideIp6));
  }
}

TEST_F(LegacyRules, AreReadSilentlyByTheMetricsUnit) {
  EXPECT_THAT(RunWith(CapabilitiesOf("nomad-bridge-metrics.service"), "metrics"),
              Exits(0, Err("")));
  EXPECT_THAT(RunLine("reconcile").err, Not(HasSubstr("has no rule")));
}

TEST_F(LegacyRules, AreNotJudgedNorRememberedWithoutRights) {
  EXPECT_THAT(RunWith(kTooFew, "reconcile").err, "") << "nobody has changed them";
  Flush();
  const Outcome without = RunWith(kTooFew, "reconcile");
  EXPECT_THAT(without.err,
              AllOf(HasSubstr("/iptables-legacy failed"), HasSubstr("/ip6tables-legacy failed")));
  EXPECT_THAT(without.err, Not(HasSubstr("has no rule")));
  Attach(DualStack(), As("other", AddContainer("other")));
  EXPECT_EQ(Rules(), rules_) << "not remembered as there";
}

// ---- foreign base chains

struct Drop : Named {
  const char* chain;
};

class LaterDrop : public ForeignFirewall, public ::testing::WithParamInterface<Drop> {};

TEST_P(LaterDrop, IsReportedByDoctorAndUpWhileItExists) {
  host().Nft(Cat("table inet mine {\nchain late {\n", GetParam().chain, "\n}\n}\n"));
  ReplaceFile("/run/nomad.conflist",
              R"({"cniVersion": "1.0.0", "name": "nomad", "plugins": [{"type": "nomad-bridge"}]})");
  const auto up = [&] { return RunLine("up /run/nomad.conflist"); };

  EXPECT_THAT(
      up(), Exits(0, Err(AllOf(HasSubstr("chain late of table inet mine"), HasSubstr("0x1000")))));
  EXPECT_THAT(MustRun("ADD", PublishingConfig()), Err(Not(HasSubstr("mine"))));
  EXPECT_THAT(RunLine("doctor forward.foreign").out, HasSubstr("chain late of table inet mine"));
  host().Must({"nft", "delete", "table", "inet", "mine"});
  EXPECT_THAT(up(), Exits(0, Err("")));
  EXPECT_THAT(RunLine("doctor forward.foreign").out, Not(HasSubstr("mine")));
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

TEST_F(ForeignFirewall, LetsUsThroughIfItAcceptsOurMark) {
  host().Nft(R"(table inet mine {
  chain late {
    type filter hook forward priority 10; policy drop;
    meta mark & 0x1000 == 0x1000 accept
  }
})");
  Attach(PublishingConfig());
  ExpectBothWays();
  EXPECT_THAT(RunLine("doctor forward.foreign").out, Not(HasSubstr("mine")));
  EXPECT_EQ(At(RunLine("inspect -json 8080").json, "/attachments/0/diagnosis/path"), json::array());
}

TEST_F(ForeignFirewall, LetsUsThroughIfAJumpedChainAcceptsOurMark) {
  host().Nft(R"(table inet mine {
  chain opened {
    meta mark & 0x1000 == 0x1000 counter log accept
  }
  chain late {
    type filter hook forward priority 10; policy drop;
    jump opened
    drop
  }
})");
  Attach(PublishingConfig());
  EXPECT_THAT(RunLine("doctor forward.foreign").out, Not(HasSubstr("mine")));
  ExpectBothWays();
}

TEST_F(ForeignFirewall, IsReportedIfItDropsBeforeUsUntilItAcceptsTheBridge) {
  host().Nft(R"(table inet mine {
  chain early {
    type filter hook forward priority -10; policy drop;
    meta mark & 0x1000 == 0x1000 accept
  }
  chain in {
    type filter hook input priority 10; policy drop;
  }
})");
  Attach(PublishingConfig());
  EXPECT_THAT(RunLine("doctor forward.foreign").out,
              AllOf(HasSubstr("chain early of table inet mine (policy drop) comes before ours"),
                    Not(HasSubstr("chain in"))));
  EXPECT_FALSE(Ping(container(), kOutsideIp4));
  for (const char* const way : {"iifname", "oifname"}) {
    host().Must({"nft", "add", "rule", "inet", "mine", "early", way, "nomad", "accept"});
  }
  EXPECT_THAT(RunLine("doctor forward.foreign").out, Not(HasSubstr("mine")));
  ExpectBothWays();
}

// ---- rules before our jump (of IPv4: fixtures/damages.txt)

TEST_F(ForeignFirewall, DropOfIpv6BeforeOurJumpIsNamedByAllAndUndoneByTheirFix) {
  Attach(Publish({Port(8080, 80)}, DualStack()));
  Serve(container(), Protocol::kTcp, {"::"}, 80, "page");
  Serve(outside(), Protocol::kTcp, {"::"}, 80, "outside");
  ReplaceFile("/run/nomad.conflist",
              R"({"cniVersion": "1.0.0", "name": "nomad", "plugins": [{"type": "nomad-bridge"}]})");
  const auto rules = [&] { return RulesWith("-A FORWARD", "ip6tables"); };
  // Whether a client gets in, and the allocation out.
  const auto reached = [&] {
    return std::vector<std::string>{TcpText(outside(), kHostIp6, 8080),
                                    TcpText(container(), kOutsideIp6, 80)};
  };
  const std::vector<std::string> whole = rules();
  host().Must(Words("ip6tables -I FORWARD -j DROP"));
  EXPECT_THAT(reached(), ElementsAre("", ""));
  const std::string text =
      "chain FORWARD of table ip6 filter (a rule for all packets) comes before our jump and drops";
  const json doctor = RunLine("doctor -json forward.foreign").json.at("checks").at(0);
  EXPECT_EQ(doctor.at("what"), text);
  EXPECT_EQ(doctor.at("verdict"), "fail");
  const std::string fix = doctor.at("fix");
  EXPECT_THAT(RunLine("up /run/nomad.conflist"),
              Exits(0, Err(HasSubstr(Cat(text, "; fix: ", fix)))));
  EXPECT_THAT(RunLine("reconcile"), Exits(1, Err(HasSubstr(Cat(text, "; fix: ", fix)))));
  EXPECT_EQ(At(RunLine("reconcile -dry-run -json").json, "/mismatches/0/text"), text);
  EXPECT_EQ(rules().front(), "-A FORWARD -j DROP") << "it may be meant";

  host().Shell(fix);
  EXPECT_THAT(reached(), ElementsAre("page", "outside"));
  EXPECT_EQ(rules(), (std::vector<std::string>{whole.front(), "-A FORWARD -j DROP"}));
  EXPECT_THAT(RunLine("doctor forward.foreign static_rules"), Exits(0));
  EXPECT_THAT(RunLine("reconcile"), Exits(0, Err("")));
}

// ---- chains that open published ports alone

// As NixOS makes it: only connections that were translated pass.
TEST_F(ForeignFirewall, IsReportedIfItAcceptsOnlyPublishedPorts) {
  Attach(Publish({Port(8080, 80)}, DualStack()));
  Serve(container(), Protocol::kTcp, {"::"}, 80, "page");
  Serve(outside(), Protocol::kTcp, {"::"}, 80, "outside");
  host().Nft(R"(table inet mine {
  chain allow {
    icmpv6 type != { router-renumbering, 139 } accept
    ct status dnat accept
  }
  chain forward {
    type filter hook forward priority filter; policy drop;
    ct state vmap { invalid : drop, established : accept, related : accept, new : jump allow, untracked : jump allow }
  }
})");
  const auto reached = [&] {
    return std::vector<std::string>{TcpText(outside(), kHostIp4, 8080),
                                    TcpText(outside(), kHostIp6, 8080),
                                    TcpText(container(), kOutsideIp4, 80),
                                    TcpText(container(), kOutsideIp6, 80)};
  };
  EXPECT_THAT(reached(), ElementsAre("page", "page", "", ""));
  const json doctor = RunLine("doctor -json forward.foreign").json.at("checks").at(0);
  EXPECT_EQ(doctor.at("verdict"), "fail");
  EXPECT_THAT(doctor.at("what").get<std::string>(),
              HasSubstr("chain forward of table inet mine (policy drop) comes after ours and drops "
                        "what allocations send"));
  host().Shell(doctor.at("fix"));
  EXPECT_THAT(reached(), ElementsAre("page", "page", "outside", "outside"));
  EXPECT_THAT(RunLine("doctor forward.foreign"), Exits(0));
}

}  // namespace
}  // namespace nomad_bridge::test
