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
  static constexpr const char* kOfFiles = "-port tcp/80 -dir /run/policy.d";

  // The cause that inspect names if `from` finds that port 8080 does not answer.
  [[nodiscard]] json CauseFrom(const std::string& from) {
    const Outcome outcome = Run({"inspect", "8080", "-json", "-from", from});
    return At(outcome.json, "/attachments/0/diagnosis/cause");
  }

  Node* api_ = nullptr;
  Node* lb_ = nullptr;
  Node* dev_ = nullptr;
};

TEST_F(PolicyShown, InspectShowsPoliciesAndTheirRefusals) {
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

TEST_F(PolicyShown, ShowHasTheSameInJson) {
  StartAll();
  Apply({kNamespaces});
  EXPECT_TRUE(Reaches(*lb_, *api_));
  const json shown = At(RunLine("policy show api -json").json, "/attachments/0");
  EXPECT_EQ(shown.at("job"), "api");
  EXPECT_EQ(shown.at("reachedBy"), "namespaces");
  EXPECT_EQ(shown.at("reachesBy"), "-");
  const json& first = shown.at("rules").at(0);
  EXPECT_EQ(first.at("way"), "in");
  EXPECT_EQ(first.at("rule"), "namespaces#0");
  EXPECT_EQ(first.at("is"), "allowed");
  EXPECT_EQ(first.at("ports"), nullptr);
  EXPECT_EQ(first.at("peer"), "same-namespace prod");
  EXPECT_GT(first.at("packets"), 0);
  EXPECT_THAT(RunLine("policy show api").out,
              HasSubstr("in   namespaces#0  allowed  everything from same-namespace prod "));
  EXPECT_THAT(RunLine("policy show -graph -json"), Exits(2, Err(HasSubstr("not JSON"))));
}

TEST_F(PolicyShown, KeepsTheColumnsOfATerminal) {
  StartAll();
  json narrow = kNamespaces;
  narrow["allow"].push_back({{"from", {{{"namespace", "infra"}, {"job", "prometheus"}}}},
                             {"ports", {"tcp/9100-9200", "udp/9100-9200"}}});
  Apply({narrow});
  EXPECT_FALSE(Reaches(*dev_, *api_));
  for (const char* const line : {"policy status",
                                 "policy status -flows",
                                 "policy show api",
                                 "policy apply -n /run/shared",
                                 "inspect api"}) {
    ExpectColumns(80, line);
  }
  EXPECT_THAT(Output("policy status"),
              HasSubstr("allow from namespace=infra job=prometheus ports tcp/9100-9200"));
  EXPECT_THAT(OnTerminal(80, "policy status"), Contains(HasSubstr("allow from namespace=infra …")));
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

// Whether anybody listens behind it or not.
TEST_F(PolicyShown, InspectNamesTheRuleForAnUnpublishedAllocation) {
  Node& api = Start("prod", "api");
  Node& dev = Start("dev", "test");
  Node& deaf = AddContainer("deaf");
  Attach(DualStack(), As("deaf", deaf, LabelsOf("prod", "deaf")));
  const auto inspect = [&](const std::string& name) {
    return Run({"inspect", name, "-from", AddressOfNode(dev)});
  };
  EXPECT_THAT(inspect("api"), Exits(0));
  EXPECT_THAT(inspect("deaf"), Exits(0));
  Apply({kNamespaces});
  EXPECT_FALSE(Reaches(dev, api));
  EXPECT_THAT(inspect("api"), Exits(1, Out(HasSubstr("policy refuses"))));
  EXPECT_THAT(inspect("deaf"), Exits(1, Out(HasSubstr("policy refuses"))));
  json by_port = kNamespaces;
  by_port["allow"].push_back({{"from", {{{"namespace", "dev"}}}}, {"ports", {"tcp/8080"}}});
  Apply({by_port});
  EXPECT_THAT(inspect("deaf"), Exits(0)) << "there is a port that it may ask for";
}

TEST_F(PolicyShown, InspectNamesTheIngressPolicyOfAnUnpublishedAllocation) {
  const json config = DualStack({{"ingressPolicy", "isolated"}});
  Start("prod", "api", config);
  Node& dev = Start("dev", "test", config);
  Node& deaf = AddContainer("deaf");
  Attach(config, As("deaf", deaf, LabelsOf("prod", "deaf")));
  for (const std::string name : {"api", "deaf"}) {
    EXPECT_THAT(Run({"inspect", name, "-from", AddressOfNode(dev)}),
                Exits(1, Out(HasSubstr("'ingressPolicy'"))))
        << name;
  }
}

// What it says is what the kernel does.
TEST_F(PolicyShown, TestKnowsTheAllocationsOfTheNode) {
  StartAll();
  Apply({kNamespaces});
  for (const int family : {4, 6}) {
    const std::string api = AddressOfNode(*api_, family);
    EXPECT_THAT(Test(AddressOfNode(*dev_, family), api, kOfFiles),
                Exits(1, Out(StartsWith("refused by namespaces at the target"))));
    EXPECT_THAT(Test("ns=dev,job=test", api, kOfFiles), Exits(1));
    EXPECT_THAT(Test(AddressOfNode(*lb_, family), api, kOfFiles),
                Exits(0, Out(StartsWith("allowed by namespaces#0 at the target"))));
  }
  EXPECT_THAT(Test(kHostIp4, AddressOfNode(*api_), kOfFiles), Exits(0)) << "it is the node's own";
  EXPECT_FALSE(Reaches(*dev_, *api_));
  EXPECT_TRUE(Reaches(*lb_, *api_));
}

TEST_F(PolicyShown, TestKnowsThePrefixesThatCoverLabels) {
  StartAll();
  const auto ask = [&](const std::string& from) { return Test(from, "ns=prod,job=api", kOfFiles); };
  const json api = {{"namespace", "prod"}, {"job", "api"}};
  Apply({{{"name", "near"},
          {"to", api},
          {"allow", {{{"from", {"172.26.64.0/20", "fd00:26::/64"}}}}}}});
  EXPECT_TRUE(Reaches(*dev_, *api_));
  EXPECT_THAT(ask("ns=dev,job=test"), Exits(0, Out(StartsWith("allowed by near#0 at the target"))));
  EXPECT_THAT(ask("ns=dev,job=nowhere"),
              Exits(1, Out(StartsWith("refused by near at the target"))));
  WritePolicies({{{"name", "near"}, {"to", api}, {"allow", {{{"from", {"172.26.64.0/20"}}}}}}});
  EXPECT_THAT(ask("ns=dev,job=test"),
              Exits(1,
                    Out(StartsWith("refused by near at the target")),
                    Err(HasSubstr("not all connections between these ends"))));
  Apply({{{"name", "not-there"},
          {"from", {{"namespace", "dev"}}},
          {"deny", {{{"to", {"172.26.64.0/20", "fd00:26::/64"}}}}}}});
  EXPECT_FALSE(Reaches(*dev_, *api_));
  EXPECT_THAT(ask("ns=dev,job=test"),
              Exits(1, Out(StartsWith("refused by not-there#deny0 at the source"))));
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
