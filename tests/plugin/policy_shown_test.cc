// How inspect and metrics show policies: which judge an allocation, what they refused, and whether
// one of them is why a port does not answer.
#include <regex>

#include "tests/plugin/policy_world.h"

namespace nomad_bridge::test {
namespace {

class PolicyShown : public PolicyWorld {
 protected:
  void StartAll() {
    api_ = &Start("prod", "api", Publish({Port(8080, 80)}, DualStack()));
    lb_ = &Start("prod", "lb");
    dev_ = &Start("dev", "test");
  }
  // The cause that inspect names if `from` finds that port 8080 does not answer.
  [[nodiscard]] json CauseFrom(const std::string& from) {
    const Outcome outcome = Run({"inspect", "8080", "-json", "-from", from});
    return At(outcome.json, "/attachments/0/diagnosis/cause");
  }

  Node* api_ = nullptr;
  Node* lb_ = nullptr;
  Node* dev_ = nullptr;
};

TEST_F(PolicyShown, InspectSaysWhichJudgeAndWhatTheyRefused) {
  StartAll();
  EXPECT_THAT(RunLine("inspect api").out, Not(HasSubstr("Policies")));
  json audited = {{"name", "audited"},
                  {"to", {{"namespace", "prod"}, {"job", "api"}}},
                  {"mode", "audit"},
                  {"only", true},
                  {"allow", json::array()}};
  Apply({kNamespaces, audited});
  EXPECT_FALSE(Reaches(*dev_, *api_));
  EXPECT_TRUE(Reaches(*lb_, *api_));
  const Outcome outcome = RunLine("inspect api");
  EXPECT_THAT(
      outcome,
      Exits(0,
            Out(AllOf(HasSubstr("Policies     reached by namespaces, audited (audit)"),
                      ::testing::ContainsRegex("namespaces: [0-9]+ connections refused since 20"),
                      ::testing::ContainsRegex("audited: [0-9]+ connections would be refused")))));
  EXPECT_THAT(RunLine("inspect test").out, Not(HasSubstr("audited")));
  const json shown = RunLine("inspect api -json").json;
  EXPECT_EQ(At(shown, "/attachments/0/policies/reachedBy"), "namespaces, audited (audit)");
  EXPECT_EQ(At(shown, "/attachments/0/policies/refusals/1/rule"), "namespaces");
  // In force it sets the others aside: what they have refused is no matter of this allocation's.
  audited["mode"] = "enforce";
  Apply({kNamespaces, audited});
  EXPECT_THAT(RunLine("inspect api"),
              Exits(0,
                    Out(AllOf(HasSubstr("Policies     reached by audited;"),
                              Not(HasSubstr("namespaces: "))))));
  EXPECT_THAT(RunLine("policy show api").out, HasSubstr("Reached by  audited\n"));
}

TEST_F(PolicyShown, InspectNamesTheRuleThatKeepsAClientOut) {
  StartAll();
  Apply({kNamespaces,
         {{"name", "egress"},
          {"from", {{"namespace", "prod"}, {"job", "lb"}}},
          {"deny", {{{"to", {{{"namespace", "prod"}}}}, {"ports", {"tcp/80"}}}}}}});
  EXPECT_EQ(
      CauseFrom(AddressOfNode(*dev_)),
      Format("policy refuses what {} sends to tcp/80: rule namespaces", AddressOfNode(*dev_)));
  EXPECT_EQ(
      CauseFrom(AddressOfNode(*lb_, 6)),
      Format("policy refuses what {} sends to tcp/80: rule egress#deny0", AddressOfNode(*lb_, 6)));
  EXPECT_EQ(CauseFrom(kOutsideIp4),
            Format("policy refuses what {} sends to tcp/80: rule namespaces", kOutsideIp4));
  EXPECT_EQ(CauseFrom(kHostIp4), nullptr) << "the node always reaches it";
  EXPECT_EQ(TcpText(host(), kHostIp4, 8080), "api");
  EXPECT_THAT(Run({"inspect", "8080", "-from", kOutsideIp4}),
              Exits(1, Out(HasSubstr(Cat("nomad-bridge policy apply ", kDirectory)))));
  EXPECT_THAT(RunLine("inspect 8080"), Exits(0)) << "whom a policy keeps out is meant";
  Apply({});
  EXPECT_EQ(CauseFrom(kOutsideIp4), nullptr);
}

// Without the chain more passes, not less.
TEST_F(PolicyShown, InspectMarksNoChainWhileThePortAnswers) {
  StartAll();
  Apply({{{"name", "open"}, {"to", {{"namespace", "prod"}}}, {"allow", {{{"from", {"outside"}}}}}},
         {{"name", "shut"}, {"to", {{"namespace", "dev"}}}, {"allow", json::array()}},
         {{"name", "out"}, {"from", {{"namespace", "prod"}}}, {"allow", {{{"to", {"outside"}}}}}}});
  // The chain that what comes for, or from, its address goes to.
  const auto chain_of = [&](const Node& node, const char* map) {
    const std::string listed = host().Must({"nft", "list", "map", "inet", "nomad-bridge", map});
    std::smatch found;
    EXPECT_TRUE(std::regex_search(
        listed, found, std::regex(Cat(AddressOfNode(node), " [^:]* : [a-z]+ ([a-z0-9-]+)"))));
    return found[1].str();
  };
  const auto inspect_without = [&](const std::string& chain) {
    host().Must({"nft", "flush", "chain", "inet", "nomad-bridge", chain});
    const Outcome outcome = RunLine("inspect 8080");
    EXPECT_THAT(outcome.out, HasSubstr(Format("chain {} in table inet nomad-bridge was", chain)));
    EXPECT_EQ(RunLine("reconcile").exit_code, 0);
    return outcome.out;
  };
  EXPECT_THAT(inspect_without(chain_of(*dev_, "in4")), Not(HasSubstr("why the port")));
  EXPECT_THAT(inspect_without(chain_of(*api_, "out4")), Not(HasSubstr("why the port")));
  EXPECT_THAT(inspect_without(chain_of(*api_, "in4")), Not(HasSubstr("why the port")));
}

TEST_F(PolicyShown, MetricsCountByRuleAndVerdict) {
  StartAll();
  EXPECT_THAT(RunLine("metrics").out, Not(HasSubstr("nomad_bridge_policy_")));
  Apply({kNamespaces});
  EXPECT_FALSE(Reaches(*dev_, *api_));
  EXPECT_TRUE(Reaches(*lb_, *api_));
  const std::string name = R"(nomad_bridge_policy_connections_total\{policy="namespaces",rule=)";
  EXPECT_THAT(
      RunLine("metrics").out,
      AllOf(::testing::ContainsRegex(Cat(name, R"("namespaces",verdict="refused"\} [1-9])")),
            ::testing::ContainsRegex(Cat(name, R"("namespaces#0",verdict="allowed"\} [1-9])"))));
  ReplaceFile(kCompiled, "damaged");
  EXPECT_THAT(RunLine("metrics"), Exits(0, Err(HasSubstr("policy apply"))));
}

}  // namespace
}  // namespace nomad_bridge::test
