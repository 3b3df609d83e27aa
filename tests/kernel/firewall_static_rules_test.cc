// The rules in iptables' own tables, read back with iptables.
#include "tests/kernel/ruleset_world.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kJump =
    "-A FORWARD -m comment --comment \"CNI firewall plugin rules\" -j CNI-FORWARD";
constexpr const char* kAdmin =
    "-A CNI-FORWARD -m comment --comment \"CNI firewall plugin admin overrides\" -j NOMAD-ADMIN";

class StaticRules : public RulesetWorld {
 protected:
  // "iptables -S", without the policies of chains.
  std::vector<std::string> Rules(const std::string& iptables = "iptables") {
    std::istringstream lines(host().Must({iptables, "-S"}));
    std::vector<std::string> rules;
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("-P")) {
        rules.push_back(line);
      }
    }
    return rules;
  }

  static std::string Accept(const std::string& mark) {
    const std::string comment = "\"nomad-bridge: accepted by table inet nomad-bridge\"";
    return Cat("-A CNI-FORWARD -m mark --mark ", mark, '/', mark) +
           Cat(" -m comment --comment ", comment, " -j ACCEPT");
  }
};

TEST_F(StaticRules, PrecedeTheHostsRulesAndLeaveThePolicyAlone) {
  host().Must({"iptables", "-P", "FORWARD", "DROP"});
  host().Must({"iptables", "-A", "FORWARD", "-j", "REJECT"});
  Put(DesiredOf(2));
  EXPECT_THAT(host().Must({"iptables", "-S", "FORWARD"}),
              Cat("-P FORWARD DROP\n",
                  kJump,
                  "\n-A FORWARD -j REJECT --reject-with icmp-port-unreachable\n"));
}

TEST_F(StaticRules, DoNotAcceptAConditionalJumpAsTheirOwn) {
  host().Must({"iptables", "-N", "CNI-FORWARD"});
  host().Must({"iptables", "-A", "FORWARD", "-s", "192.0.2.1", "-j", "CNI-FORWARD"});
  Put(DesiredOf(2));
  EXPECT_THAT(Rules(),
              ElementsAre("-N CNI-FORWARD",
                          "-N NOMAD-ADMIN",
                          kJump,
                          "-A FORWARD -s 192.0.2.1/32 -j CNI-FORWARD",
                          kAdmin,
                          Accept("0x1000")));
}

TEST_F(StaticRules, LeaveIpv6AloneWhereNoNetworkHasIt) {
  DesiredState desired = DesiredOf(2);
  desired.forward_hook.ipv6 = false;
  Put(desired);
  EXPECT_THAT(host().Must({"nft", "list", "tables"}), Not(HasSubstr("ip6 filter")));
  EXPECT_THAT(Put(DesiredOf(3), {desired}).repaired,
              ElementsAre("the forwarding rules in table ip6 filter are missing"));
  EXPECT_THAT(Rules("ip6tables"), Contains(kJump));
}

TEST_F(StaticRules, AreAddedForANewNetwork) {
  Put(DesiredOf(2));
  firewall::Goal goal = GoalOf({DesiredOf(2)});
  goal.forward_hooks.push_back({.admin_chain = "OTHER-ADMIN"});
  EXPECT_THAT(
      Compare(goal),
      ElementsAre("the jump from CNI-FORWARD to OTHER-ADMIN is missing in table ip filter"));
  EXPECT_THAT(Rules(), Contains(HasSubstr("-j OTHER-ADMIN")));
}

// nft does not print comments that iptables-restore has made, so they are not in its list.
TEST_F(StaticRules, AreTheSameAfterTheyWereSavedAndLoaded) {
  Put(DesiredOf(2));
  for (const char* const way :
       {"iptables-save >/run/4 && iptables-restore </run/4 && "
        "ip6tables-save >/run/6 && ip6tables-restore </run/6",
        "nft list ruleset >/run/all && nft flush ruleset && nft -f /run/all",
        "iptables-save >/run/4 && iptables-restore </run/4"}) {
    SCOPED_TRACE(way);
    host().Must({"sh", "-c", way});
    EXPECT_THAT(Put(DesiredOf(3), {DesiredOf(2)}).repaired, IsEmpty());
    for (const std::string iptables : {"iptables", "ip6tables"}) {
      EXPECT_EQ(Rules(iptables).size(), 5U) << Joined(Rules(iptables), "\n");
    }
  }
}

TEST_F(StaticRules, LoseTheirDuplicates) {
  Put(DesiredOf(2));
  for (const char* const family : {"ip", "ip6"}) {
    const std::string rule =
        Cat("add rule ", family, " filter CNI-FORWARD mark & 0x1000 == 0x1000 ");
    host().Nft(Cat(rule, "accept\n", rule, "counter accept\n", rule, "accept comment operators\n"));
  }
  Put(DesiredOf(3), {DesiredOf(2)});
  for (const std::string iptables : {"iptables", "ip6tables"}) {
    EXPECT_THAT(Rules(iptables), Contains(Accept("0x1000")));
    EXPECT_THAT(Rules(iptables), Contains(HasSubstr("--comment operators")));
    EXPECT_EQ(Rules(iptables).size(), 6U) << Joined(Rules(iptables), "\n");
  }
}

TEST_F(StaticRules, LeaveAnOperatorsAcceptOfAnotherMark) {
  Put(DesiredOf(2));
  host().Must(
      Words("iptables -A CNI-FORWARD -m mark --mark 0x2000/0x2000 "
            "-m comment --comment operator:vpn -j ACCEPT"));
  Put(DesiredOf(3), {DesiredOf(2)});
  EXPECT_THAT(host().Must({"iptables", "-S", "CNI-FORWARD"}), HasSubstr("operator:vpn"));
}

}  // namespace
}  // namespace nomad_bridge::test
