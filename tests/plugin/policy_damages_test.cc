// Policies that are damaged or lost: what they refused stays refused. Rules that are flushed or
// changed are rows of fixtures/damages.txt.
#include "tests/plugin/policy_world.h"

namespace nomad_bridge::test {
namespace {

class PolicyDamages : public PolicyWorld {};

TEST_F(PolicyDamages, DamagedPoliciesRefuseAnAddAndLeaveRunningAllocations) {
  const json config = DualStack();
  Node& api = Start("prod", "api", config);
  Apply({kNamespaces});
  Node& dev = Start("dev", "test");
  Node& next = AddContainer("next");
  const std::string compiled = FindFile(kCompiled).value();
  for (const std::string& damage : {std::string(),
                                    std::string("damaged"),
                                    Cat("damaged\n", compiled),
                                    compiled.substr(0, 50)}) {
    SCOPED_TRACE(damage);
    ReplaceFile(kCompiled, damage);
    EXPECT_THAT(RunPlugin("ADD", config, As("next", next)),
                Fails(5, Details(HasSubstr("nomad-bridge policy apply"))));
    EXPECT_THAT(RunLine("reconcile"), Exits(1, Err(HasSubstr("nomad-bridge policy apply"))));
    EXPECT_THAT(RunLine("doctor policy table bridge"),
                Exits(1,
                      Out(AllOf(HasSubstr("FAIL  policy.in_force"),
                                HasSubstr("\n1 failure, 0 warnings, ")))));
    EXPECT_THAT(RunLine("doctor -json policy").out, HasSubstr(R"("check": "policy.traffic")"));
    EXPECT_THAT(RunLine("metrics").out,
                HasSubstr(R"(nomad_bridge_faults{check="policy.traffic",verdict="warn"} 1)"));
    EXPECT_FALSE(Reaches(dev, api));
  }
  EXPECT_EQ(Check(config, results_.at(api.name()), As(api.name(), api)).exit_code, 0);
  EXPECT_FALSE(Reaches(dev, api));
  Detach(config, As(dev.name(), dev));
  EXPECT_THAT(ListWithoutFlows(), Not(HasSubstr(Cat(AddressOfNode(dev), " "))));
  Apply({kNamespaces});
  Attach(config, As("next", next));
}

// As damaged ones, not as none.
TEST_F(PolicyDamages, LostPoliciesRefuseAnAddAndLeaveRunningAllocations) {
  const json config = DualStack();
  SetBridgeNf("0");
  Node& api = Start("prod", "api", config);
  Node& dev = Start("dev", "test");
  Node& next = AddContainer("next");
  Apply({kNamespaces});
  for (const char* const damage : {"rm /run/nomad-bridge/.policy", "rm -r /run/nomad-bridge"}) {
    SCOPED_TRACE(damage);
    host().Must({"sh", "-ec", damage});
    const std::string before = ListWithoutFlows();
    EXPECT_THAT(RunLine("reconcile"), Exits(1, Err(HasSubstr("nomad-bridge policy apply"))));
    EXPECT_THAT(RunLine("gc"), Exits(1, Err(HasSubstr("nomad-bridge policy apply"))));
    EXPECT_THAT(RunPlugin("ADD", config, As("next", next)),
                Fails(5, Details(HasSubstr("nomad-bridge policy apply"))));
    EXPECT_EQ(Check(config, results_.at(api.name()), As(api.name(), api, LabelsOf("prod", "api")))
                  .exit_code,
              0);
    EXPECT_THAT(RunLine("doctor -strict policy ports records"),
                Exits(1,
                      Out(AllOf(HasSubstr("FAIL  policy.in_force"),
                                Not(HasSubstr("ports.orphan  ")),
                                Not(HasSubstr("nomad-bridge gc"))))));
    EXPECT_EQ(ListWithoutFlows(), before);
  }
  Detach(config, As(dev.name(), dev));
  EXPECT_THAT(ListWithoutFlows(), Not(HasSubstr(Cat(AddressOfNode(dev), " "))));
  Apply({kNamespaces});
  EXPECT_EQ(RunLine("reconcile -dry-run").exit_code, 0);
  EXPECT_FALSE(Reaches(Start("dev", "again", config), api));
}

TEST_F(PolicyDamages, ALostRecordChangesNothingOfWhatPoliciesRefuse) {
  const json config = DualStack();
  Node& api = Start("prod", "api", config);
  Node& dev = Start("dev", "test", config);
  Apply({kNamespaces});
  const std::string before = ListWithoutFlows();
  const json policy = ReadRecord(dev.name()).at("rules").at("policy");
  host().Must({"rm", RecordOf(dev.name()), RecordOf(api.name())});
  EXPECT_EQ(RunLine("reconcile").exit_code, 0);
  EXPECT_EQ(ListWithoutFlows(), before);
  MustCheck(config, results_.at(dev.name()), As(dev.name(), dev, LabelsOf("dev", "test")));
  EXPECT_EQ(ReadRecord(dev.name()).at("rules").at("policy"), policy);
  EXPECT_EQ(ListWithoutFlows(), before);
  EXPECT_FALSE(Reaches(dev, api));
  Detach(config, As(api.name(), api));
  EXPECT_THAT(ListWithoutFlows(), Not(HasSubstr(Cat(AddressOfNode(api), " "))));
}

}  // namespace
}  // namespace nomad_bridge::test
