// Whether policies see what passes between two ports of a bridge: flags of ours, bridges of others,
// and what is said where they do not.
#include "tests/plugin/policy_world.h"
#include "tests/support/mounted.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kLoad = "modprobe br_netfilter";
const std::string kHandOver = "ip link set lan0 type bridge nf_call_iptables 1 nf_call_ip6tables 1";

class PolicyBridges : public PolicyWorld {
 protected:
  PolicyBridges() { SetBridgeNf("0"); }

  // nf_call_iptables and nf_call_ip6tables of bridge "nomad".
  [[nodiscard]] std::pair<int, int> Flags() {
    const json link = LinkOn(host(), "nomad");
    return {At(link, "/linkinfo/info_data/nf_call_iptables"),
            At(link, "/linkinfo/info_data/nf_call_ip6tables")};
  }
  // As the module's files are gone when it is not loaded.
  [[nodiscard]] static Mounted HideModule() { return {{"-t", "tmpfs", "none"}, kModule}; }
  [[nodiscard]] Outcome CheckOf(const Node& node, const std::string& job, const json& config) {
    return Check(config, results_.at(node.name()), As(node.name(), node, LabelsOf("prod", job)));
  }

  static constexpr const char* kModule = "/proc/sys/net/bridge";
};

TEST_F(PolicyBridges, FlagsAreTurnedOnAndStayOn) {
  Start("prod", "api");
  host().Must(Words("ip link set nomad type bridge nf_call_iptables 1"));
  Apply({kNamespaces});
  EXPECT_EQ(Flags(), std::pair(1, 1));
  Apply({});
  EXPECT_EQ(Flags(), std::pair(1, 1));
}

TEST_F(PolicyBridges, ACheckTurnsTheirFlagsOnAgain) {
  const json config = DualStack();
  Node& api = Start("prod", "api", config);
  Node& dev = Start("dev", "test");
  Apply({kNamespaces});
  host().Must(Words("ip link set nomad type bridge nf_call_iptables 0"));
  EXPECT_THAT(RunLine("doctor policy.traffic"),
              Exits(1, Out(HasSubstr("\n      fix: nomad-bridge reconcile\n"))));
  EXPECT_THAT(CheckOf(api, "api", config), Exits(0, Err(HasSubstr("repaired: bridge 'nomad'"))));
  EXPECT_FALSE(Reaches(dev, api));
}

// Nomad ends an allocation whose CHECK fails; an unloaded module is no fault of its.
TEST_F(PolicyBridges, ACheckWithoutTheModuleSaysSoAndLeavesTheAllocation) {
  const json config = DualStack();
  Node& api = Start("prod", "api", config);
  Apply({kNamespaces});
  {
    const Mounted hidden = HideModule();
    EXPECT_THAT(CheckOf(api, "api", config), Exits(0, Err(HasSubstr(kLoad))));
    EXPECT_THAT(
        RunLine("doctor policy"),
        Exits(1, Out(AllOf(HasSubstr("FAIL  policy.traffic"), HasSubstr(Cat("fix: ", kLoad))))));
    EXPECT_THAT(RunLine("inspect api"), Exits(1, Out(HasSubstr(kLoad))));
    EXPECT_THAT(RunLine("reconcile"), Exits(1, Err(HasSubstr(kLoad))));
    EXPECT_THAT(RunLine("policy status"), Exits(0, Err(HasSubstr(kLoad))));
    EXPECT_THAT(Run({"policy", "apply", kDirectory}), Exits(1, Err(HasSubstr(kLoad))));
    Node& next = AddContainer("next");
    EXPECT_THAT(RunPlugin("ADD", config, As("next", next, LabelsOf("prod", "next"))),
                Fails(100, Msg(HasSubstr("nomad")), Details(HasSubstr(kLoad))));
  }
  EXPECT_THAT(RunLine("doctor policy"), Exits(0));
}

TEST_F(PolicyBridges, OperatorsBridgeIsNotChangedAndItsMissingFlagsAreNamed) {
  host().Must(Words("ip link add lan0 up type bridge"));
  Apply({kNamespaces});
  const json config = DualStack({{"bridge", "lan0"}});
  EXPECT_THAT(RunPlugin("ADD", config, As("a", container(), LabelsOf("prod", "a"))),
              Fails(102, Msg(HasSubstr("lan0")), Details(HasSubstr("nf_call_iptables 1"))));
  host().Must(Words(kHandOver));
  Node& api = Start("prod", "api", config);
  host().Must(Words("ip link set lan0 type bridge nf_call_iptables 0"));
  EXPECT_THAT(CheckOf(api, "api", config), Exits(0, Err(HasSubstr(kHandOver))));
  EXPECT_THAT(RunLine("doctor policy"), Exits(1, Out(HasSubstr(Cat("fix: ", kHandOver)))));
  EXPECT_EQ(At(LinkOn(host(), "lan0"), "/linkinfo/info_data/nf_call_iptables"), 0);
  host().Must(Words(kHandOver));
  EXPECT_EQ(RunLine("doctor policy").exit_code, 0);
  EXPECT_THAT(CheckOf(api, "api", config), Exits(0, Err(Not(HasSubstr("lan0")))));
}

// Of an attachment that another plugin made only the rules are ours.
TEST_F(PolicyBridges, BridgeOfAnotherPluginIsNamedByEveryCommand) {
  host().Must(Words("ip link add other0 up type bridge"));
  host().Must(Words(Cat("ip link add other-a up master other0 type veth peer name eth0 netns ",
                        container().name())));
  container().Must(Words("ip address add 10.9.0.2/24 dev eth0"));
  container().Must(Words("ip link set eth0 up"));
  const json result = {{"cniVersion", "1.0.0"},
                       {"interfaces",
                        {{{"name", "other0"}},
                         {{"name", "other-a"}},
                         {{"name", "eth0"}, {"sandbox", container().path()}}}},
                       {"ips", {{{"interface", 2}, {"address", "10.9.0.2/24"}}}}};
  const json config = {
      {"cniVersion", "1.0.0"}, {"name", "other"}, {"type", "firewall"}, {"prevResult", result}};
  ASSERT_THAT(
      RunPlugin("ADD", config.dump(), As("a", container(), LabelsOf("prod", "a")), "firewall"),
      Exits(0));
  WritePolicies({kNamespaces});
  const auto is_named = HasSubstr("the ports of bridge 'other0'");
  EXPECT_THAT(Run({"policy", "apply", kDirectory}), Exits(0, Err(is_named)));
  EXPECT_THAT(RunLine("policy status"), Exits(0, Err(is_named)));
  EXPECT_THAT(RunLine("doctor policy"), Exits(1, Out(is_named)));
  SetBridgeNf("1");
  EXPECT_THAT(RunLine("policy status"), Exits(0, Err(Not(is_named))));
  EXPECT_EQ(RunLine("doctor policy").exit_code, 0);
}

// ---- doctor

TEST_F(PolicyBridges, DoctorSaysThatFilesDiffer) {
  Apply({kNamespaces});
  EXPECT_EQ(RunLine("doctor policy").exit_code, 0);
  WritePolicies({});
  EXPECT_THAT(RunLine("doctor -strict policy"),
              Exits(1,
                    Out(AllOf(HasSubstr("WARN  policy.files"),
                              HasSubstr(Cat("fix: nomad-bridge policy apply ", kDirectory))))));
  EXPECT_THAT(RunLine("policy status"), Exits(1, Err(HasSubstr(Cat("the files in ", kDirectory)))));
  ReplaceFile(Cat(kDirectory, "/policies.json"), "{");
  EXPECT_THAT(RunLine("doctor policy"), Exits(1, Out(HasSubstr("FAIL  policy.files"))));
  EXPECT_THAT(RunLine("policy status"),
              Exits(1, Err(AllOf(HasSubstr("policies.json:1:"), HasSubstr("policy check")))));
}

TEST_F(PolicyBridges, DoctorSaysThatTheDirectoryIsGone) {
  Apply({kNamespaces});
  fs::remove_all(kDirectory);
  EXPECT_THAT(
      RunLine("doctor policy").out,
      AllOf(HasSubstr(Cat("policies are in force, and ", kDirectory, " is gone")),
            HasSubstr("advice: restore the directory, or apply /etc/nomad-bridge/policy.d")));
  EXPECT_THAT(RunLine("policy apply"), Exits(0));
  EXPECT_EQ(RunLine("doctor policy").exit_code, 0);
}

// As after somebody has emptied /run, and our tables.
TEST_F(PolicyBridges, DoctorReportsPoliciesThatExistOnlyInFiles) {
  Apply({kNamespaces});
  fs::create_directories("/run/etc/nomad-bridge");
  fs::copy(kDirectory, "/run/etc/nomad-bridge/policy.d");
  const NodeConfig config("{}");
  host().Must({"sh", "-ec", "rm -r /run/nomad-bridge; nft flush ruleset"});
  EXPECT_THAT(RunLine("doctor policy"),
              Out(AllOf(HasSubstr("WARN  policy.files          the policies in "
                                  "/etc/nomad-bridge/policy.d are not in force: none were "),
                        HasSubstr("fix: nomad-bridge policy apply /etc/nomad-bridge/policy.d"))));
}

TEST_F(PolicyBridges, DoctorSaysThatPoliciesAreRequiredOrDamaged) {
  const NodeConfig config(R"({"policy": {"required": true}})");
  EXPECT_THAT(RunLine("doctor policy"), Exits(1, Out(HasSubstr("ADDs are refused"))));
  Apply({kNamespaces});
  EXPECT_EQ(RunLine("doctor policy").exit_code, 0);
  ReplaceFile(kCompiled, "damaged");
  EXPECT_THAT(RunLine("doctor policy"),
              Exits(1,
                    Out(AllOf(HasSubstr("FAIL  policy.in_force"),
                              HasSubstr("advice: nomad-bridge policy apply DIR")))));
}

// No file says so. ADD, apply, status and doctor agree.
TEST_F(PolicyBridges, AnEmptyDirectoryDoesNotMeetRequiredPolicies) {
  const NodeConfig config(R"({"policy": {"required": true}})");
  EnsureDirectory(kDirectory);
  const auto expect = [&](bool is_satisfied) {
    const Outcome add = RunPlugin("ADD", DualStack());
    EXPECT_EQ(add.json.value("code", 0), is_satisfied ? 0 : 11) << add;
    EXPECT_EQ(RunLine("doctor policy").exit_code, is_satisfied ? 0 : 1);
    EXPECT_EQ(RunLine("policy status -json").json.at("applied"), is_satisfied);
    const std::string said = RunLine("policy status").err;
    EXPECT_EQ(said.find("no policies were applied") == said.npos, is_satisfied) << said;
  };
  const auto refused = HasSubstr("ADDs are refused until");
  EXPECT_THAT(RunLine("policy apply"), Exits(0, Err(refused)));
  expect(false);
  EXPECT_THAT(Run({"policy", "apply", kDirectory}), Exits(0, Err(refused)));
  expect(false);
  EXPECT_THAT(RunLine("doctor policy").out, HasSubstr(R"("policies": [])"));
  ReplaceFile(Cat(kDirectory, "/a.json"), R"({"version": 1, "addresses": {}})");
  EXPECT_THAT(Run({"policy", "apply", kDirectory}), Exits(0, Err(refused)));
  expect(false);
  WritePolicies({});
  EXPECT_THAT(Run({"policy", "apply", kDirectory}), Exits(0, Err(Not(refused))));
  expect(true);
  WritePolicies({kNamespaces});
  EXPECT_THAT(Run({"policy", "apply", kDirectory}), Exits(0));
  expect(true);
  fs::remove_all(kDirectory);
  EnsureDirectory(kDirectory);
  EXPECT_THAT(Run({"policy", "apply", kDirectory}), Exits(0, Err(refused)));
  expect(false);
}

TEST_F(PolicyBridges, DoctorSaysThatRulesAreLost) {
  Start("prod", "api");
  Apply({kNamespaces});
  host().Must(Words("nft flush ruleset"));
  EXPECT_THAT(RunLine("doctor policy"),
              Exits(1,
                    Out(AllOf(HasSubstr("FAIL  policy.in_force"),
                              HasSubstr("the policies in the kernel are not those"),
                              HasSubstr("fix: nomad-bridge reconcile")))));
  ReplaceFile(kCompiled, "damaged");
  EXPECT_THAT(RunLine("doctor table"),
              Exits(1,
                    Out(AllOf(HasSubstr("FAIL  table.intact"),
                              HasSubstr("cannot read the policies in force")))));
}

}  // namespace
}  // namespace nomad_bridge::test
