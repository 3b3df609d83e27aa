// What becomes of policies: applied while allocations run, counted, and lost with a reboot.
#include "tests/plugin/policy_world.h"
#include "tests/support/mounted.h"

namespace nomad_bridge::test {
namespace {

class PolicyLife : public PolicyWorld {
 protected:
  [[nodiscard]] json Status() {
    const Outcome outcome = RunLine("policy status -json");
    EXPECT_EQ(outcome.exit_code, 0) << outcome;
    return json::parse(outcome.out);
  }
  [[nodiscard]] json StatusOf(const std::string& rule) {
    const json status = Status();
    for (const json& each : status.at("rules")) {
      if (each.at("rule") == rule) {
        return each;
      }
    }
    ADD_FAILURE() << "no rule " << rule << " in " << status;
    return nullptr;
  }
};

TEST_F(PolicyLife, DocumentsAreAsTheirSchemasSay) {
  const Node& api = Start("prod", "api");
  const Node& dev = Start("dev", "etl");
  Apply({kNamespaces});
  EXPECT_FALSE(Reaches(dev, api));
  ExpectValid(RunLine("policy status -json").out, "policy-status.json");
  ExpectValid(RunLine("policy status -flows -json").out, "policy-flows.json");
  ExpectValid(RunLine("policy show api-prod -json").out, "policy-show.json");
  EnsureDirectory("/run/none");
  for (const char* const directory : {kDirectory, "/run/none"}) {
    ExpectValid(Run({"policy", "apply", "-json", "-n", directory}).out, "policy-apply.json");
  }
}

TEST_F(PolicyLife, ExamplesAreAsTheSchemaSaysAndCanBeApplied) {
  EnsureDirectory(kDirectory);
  for (const std::string name : {"namespaces", "only-lb", "egress"}) {
    const std::string text = ReadFixture(Format("../examples/policy/{}.json", name));
    ReplaceFile(Format("{}/{}.json", kDirectory, name), text);
    ExpectValid(text, "policy.json");
  }
  Node& api = Start("prod", "api");
  Node& batch = Start("batch", "job");
  EXPECT_THAT(Run({"policy", "apply", kDirectory}), Exits(0, Err(HasSubstr("4 policies"))));
  EXPECT_FALSE(Reaches(batch, api));
  EXPECT_THAT(RunLine("policy show api"),
              Exits(0,
                    Out(AllOf(HasSubstr("Reached by  api\n"),
                              HasSubstr("tcp/8080 from namespace=prod job=lb")))));
}

// The file is named, and what is in force stays.
TEST_F(PolicyLife, ABadFileChangesNothing) {
  Node& api = Start("prod", "api");
  Node& dev = Start("dev", "test");
  Apply({kNamespaces});
  const std::string before = ListWithoutFlows();
  const auto compiled = FindFile(kCompiled);
  ASSERT_TRUE(compiled);
  const auto allow = [](const std::string& name, const std::string& ports) {
    return Format(R"({"version": 1, "policies": [{"name": "{}", "to": {"namespace": "*"},
      "allow": [{"from": ["any"], "ports": ["{}"]}]}]})",
                  name,
                  ports);
  };
  for (const auto& [text, says] :
       {std::pair(allow("namespaces", "tcp"), std::string("'namespaces' is defined twice")),
        std::pair(allow("b", "tcp/90-80"), std::string("'tcp/90-80'")),
        std::pair(allow("b", "tcp/70000"), std::string("'tcp/70000'")),
        std::pair(std::string(1 << 20, '['), std::string("typo.json:1:")),
        std::pair(std::string(R"({"version": 1, "policies": [)"), std::string("typo.json:1:")),
        std::pair(std::string("{ \"version\": 1,\n  \"polcies\": [] }"),
                  std::string("typo.json:2:3: "))}) {
    ReplaceFile(Cat(kDirectory, "/typo.json"), text);
    EXPECT_THAT(Run({"policy", "apply", kDirectory}), Exits(1, Err(HasSubstr(says))));
    EXPECT_EQ(ListWithoutFlows(), before);
    EXPECT_EQ(FindFile(kCompiled), compiled);
  }
  EXPECT_THAT(RunLine(Cat("policy apply ", kDirectory, "/typo.json")),
              Exits(1, Err(HasSubstr("directory"))));
  EXPECT_EQ(FindFile(kCompiled), compiled);
  EXPECT_FALSE(Reaches(dev, api));
}

// No directory is no policies, which would let everybody in.
TEST_F(PolicyLife, ANamedDirectoryMustExist) {
  Node& api = Start("prod", "api");
  Node& dev = Start("dev", "test");
  Apply({kNamespaces});
  for (const std::string command :
       {"policy apply /run/polcy.d",
        "policy check /run/polcy.d",
        "policy test -from node -to ns=a -port icmp -dir /run/polcy.d"}) {
    EXPECT_THAT(RunLine(command), Exits(2, Err(HasSubstr("no directory '/run/polcy.d'"))));
  }
  EXPECT_FALSE(Reaches(dev, api));
}

// Without a file nothing is written that an ADD would read.
TEST_F(PolicyLife, NothingIsAppliedWithoutADirectory) {
  const Mounted etc({"-t", "tmpfs", "tmpfs"}, "/etc");
  const auto says_so = Err(AllOf(HasSubstr("'/etc/nomad-bridge/policy.d' does not exist"),
                                 Not(HasSubstr("attachment"))));
  EXPECT_THAT(RunLine("policy apply"), Exits(0, Out(""), says_so));
  EXPECT_THAT(RunLine("policy apply -dry-run"), Exits(0, Out(""), says_so));
  const Outcome in_json = RunLine("policy apply -json");
  EXPECT_THAT(in_json, Exits(0, says_so));
  EXPECT_EQ(At(in_json.json, "/dryRun"), false);
  EXPECT_EQ(At(in_json.json, "/changed"), json::array());
  EXPECT_FALSE(FindStatus(kCompiled));
}

// To end all policies an empty directory is made.
TEST_F(PolicyLife, UnreadablePoliciesStayWithoutADirectory) {
  const Mounted etc({"-t", "tmpfs", "tmpfs"}, "/etc");
  Node& api = Start("prod", "api");
  Node& dev = Start("dev", "test");
  Apply({kNamespaces});
  for (const char* const damage :
       {"echo damaged >/run/nomad-bridge/.policy", "rm /run/nomad-bridge/.policy"}) {
    const std::string before = ListWithoutFlows();
    host().Must({"sh", "-ec", damage});
    for (const char* const command : {"policy apply", "policy apply -dry-run"}) {
      EXPECT_THAT(RunLine(command),
                  Exits(1,
                        Err(AllOf(HasSubstr("'/etc/nomad-bridge/policy.d' does not exist"),
                                  HasSubstr("nomad-bridge policy apply DIR")))))
          << damage;
    }
    EXPECT_EQ(ListWithoutFlows(), before);
    EXPECT_FALSE(Reaches(dev, api));
  }
  EXPECT_THAT(RunLine("policy status"), Exits(1, Err(HasSubstr("the file is gone"))));
  EnsureDirectory("/etc/nomad-bridge");
  EnsureDirectory("/etc/nomad-bridge/policy.d");
  EXPECT_THAT(RunLine("policy apply"), Exits(0, Err(HasSubstr("0 policies in force"))));
  EXPECT_TRUE(Reaches(dev, api));
}

// While the policy goes on selecting another one.
TEST_F(PolicyLife, AnAllocationThatIsSelectedNoMoreIsOpen) {
  Node& api = Start("prod", "api");
  Node& db = Start("prod", "db");
  Node& dev = Start("dev", "test");
  json closed = kNamespaces;
  closed["to"] = {{"namespace", "prod"}};
  Apply({closed});
  EXPECT_FALSE(Reaches(dev, api));
  closed["to"]["job"] = "db";
  Apply({closed});
  EXPECT_FALSE(Reaches(dev, db));
  EXPECT_TRUE(Reaches(dev, api));
  EXPECT_THAT(Test("test", "api"), Exits(0));
  EXPECT_EQ(RunLine("reconcile -dry-run").exit_code, 0);
}

// As after somebody has emptied /run, or an agent's container was replaced.
TEST_F(PolicyLife, AllocationsWithoutARecordKeepTheirPolicies) {
  Node& api = Start("prod", "api");
  Node& lb = Start("prod", "lb");
  Node& dev = Start("dev", "test");
  Apply({kNamespaces});
  fs::remove_all("/run/nomad-bridge");
  const auto is_named = HasSubstr("container 'prod-api' of network 'nomad' has no record");
  EXPECT_THAT(Run({"policy", "apply", kDirectory}), Exits(1, Err(is_named)));
  EXPECT_FALSE(Reaches(dev, api));
  EXPECT_TRUE(Reaches(lb, api));
  // Other policies, and an allocation that is new.
  json open = kNamespaces;
  open["name"] = "open";
  open["allow"].push_back({{"from", {{{"namespace", "dev"}}}}});
  WritePolicies({open});
  EXPECT_THAT(Run({"policy", "apply", kDirectory}), Exits(1, Err(is_named)));
  Node& late = Start("prod", "late");
  Node& late_dev = Start("dev", "late");
  EXPECT_TRUE(Reaches(late_dev, late));
  EXPECT_FALSE(Reaches(dev, late)) << "nobody knows its labels";
  EXPECT_FALSE(Reaches(late_dev, api));
  EXPECT_FALSE(Reaches(dev, api));
  EXPECT_TRUE(Reaches(lb, api));
  EXPECT_THAT(Test("ns=dev,job=test", AddressOfNode(api)),
              Exits(2, Err(HasSubstr("by other policies"))));
  // The way back that is named.
  for (const Node* const node : {&api, &lb, &dev}) {
    const std::string name = node->name();
    EXPECT_EQ(Check(DualStack(),
                    results_.at(name),
                    As(name,
                       *node,
                       LabelsOf(name.substr(0, name.find('-')), name.substr(name.find('-') + 1))))
                  .exit_code,
              0);
  }
  EXPECT_THAT(Run({"policy", "apply", kDirectory}), Exits(0));
  EXPECT_TRUE(Reaches(dev, api));
}

TEST_F(PolicyLife, OnlyWhatConcernsThisNodeIsInTheKernel) {
  Start("prod", "api");
  std::vector<json> policies = {kNamespaces};
  for (int i = 0; i < 300; ++i) {
    policies.push_back(
        {{"name", Cat("other", i)},
         {"to", {{"namespace", "elsewhere"}, {"job", Cat("job", i)}}},
         {"allow", {{{"from", {{{"namespace", "x"}, {"job", Cat("j", i)}}, "list"}}}}}});
  }
  Apply(policies, {{"list", {"10.20.0.0/16"}}});
  const std::string table = ListTable();
  EXPECT_THAT(table, HasSubstr("counter namespaces-refused"));
  EXPECT_THAT(table, AllOf(Not(HasSubstr("other")), Not(HasSubstr("adr4-"))));
  Start("dev", "test");
  // The first one that needs a list brings it.
  Start("elsewhere", "job7");
  const std::string later = ListTable();
  EXPECT_THAT(later, AllOf(HasSubstr("counter other7-"), HasSubstr("10.20.0.0/16")));
  EXPECT_THAT(later, Not(HasSubstr("counter other8-")));
  EXPECT_EQ(RunLine("reconcile -dry-run").exit_code, 0);
  EXPECT_THAT(Output("policy status"), AllOf(HasSubstr("other8#0"), HasSubstr("other7#0")));
  EXPECT_THAT(Output("metrics"), AllOf(HasSubstr("other7#0"), Not(HasSubstr("other8#0"))));
}

TEST_F(PolicyLife, AnAllocationLeavesNothingInTheSets) {
  Apply({kNamespaces});
  Node& lb = Start("prod", "lb");
  Start("prod", "api");
  EXPECT_THAT(ListWithoutFlows(), HasSubstr(AddressOfNode(lb)));
  Detach(DualStack(), As(lb.name(), lb));
  EXPECT_THAT(ListWithoutFlows(), Not(HasSubstr(Cat(AddressOfNode(lb), " "))));
  EXPECT_THAT(RunLine("reconcile -dry-run"), Exits(0));
}

// An empty directory is what docs/moving.md says to apply before an older release takes over.
TEST_F(PolicyLife, RulesExistOnlyWithPolicies) {
  Node& api = Start("prod", "api");
  Node& dev = Start("dev", "test");
  const std::string before = ListWithoutFlows();
  EXPECT_THAT(before, Not(HasSubstr("judge")));
  EXPECT_FALSE(FindStatus(kCompiled));
  Apply({kNamespaces});
  EXPECT_THAT(ListWithoutFlows(), HasSubstr("judge"));
  Apply({});
  EXPECT_EQ(ListWithoutFlows(), before);
  EXPECT_EQ(RunLine("reconcile -dry-run").exit_code, 0);

  Apply({kNamespaces});
  EXPECT_FALSE(Reaches(dev, api));
  EnsureDirectory("/run/no-policies");
  EXPECT_THAT(RunLine("policy apply /run/no-policies"), Exits(0, Err(HasSubstr("0 policies in"))));
  EXPECT_EQ(ListWithoutFlows(), before);
  EXPECT_TRUE(Reaches(dev, api));
}

TEST_F(PolicyLife, ADryRunNamesAffectedAllocationsAndChangesNothing) {
  Start("prod", "api");
  Start("dev", "test");
  const std::string before = ListWithoutFlows();
  WritePolicies({{{"name", "api"},
                  {"to", {{"namespace", "prod"}}},
                  {"allow", {{{"from", {"same-namespace"}}}}}}});
  const Outcome outcome = Run({"policy", "apply", "-dry-run", kDirectory});
  EXPECT_THAT(outcome, Exits(0, Out(HasSubstr("- -> api")), Err(HasSubstr("1 attachment"))));
  EXPECT_THAT(outcome.out, Not(HasSubstr("dev")));
  EXPECT_EQ(ListWithoutFlows(), before);
  EXPECT_FALSE(FindStatus(kCompiled));
}

TEST_F(PolicyLife, ConnectionsGoOnUnlessTheyAreCut) {
  Node& api = Start("prod", "api");
  Node& dev = Start("dev", "test");
  std::optional<Connection> connection =
      Connection::Open(dev, {.to = AddressOfNode(api), .port = 80});
  ASSERT_TRUE(connection);
  Apply({kNamespaces});
  EXPECT_TRUE(connection->Echoes("still here"));
  EXPECT_FALSE(Reaches(dev, api));
  const Outcome outcome = Run({"policy", "apply", "-cut", kDirectory});
  EXPECT_THAT(outcome, Exits(0, Err(HasSubstr("connection"))));
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_FALSE(connection->Echoes("and now"));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, Call().patience / 2) << "it was told nothing";
}

TEST_F(PolicyLife, AnAuditedPolicyCountsAndLetsPass) {
  Node& api = Start("prod", "api");
  Node& lb = Start("prod", "lb");
  Node& dev = Start("dev", "test");
  Apply({Audited()});
  EXPECT_TRUE(Reaches(dev, api));
  EXPECT_TRUE(Reaches(lb, api));
  EXPECT_GE(StatusOf("namespaces").at("wouldBeRefused"), 4);
  EXPECT_GE(StatusOf("namespaces#0").at("allowed"), 4);
  EXPECT_EQ(StatusOf("namespaces").at("mode"), "audit");
}

TEST_F(PolicyLife, CountersOfAnUnchangedRuleGoOn) {
  Node& api = Start("prod", "api");
  Node& lb = Start("prod", "lb");
  Node& dev = Start("dev", "test");
  Apply({kNamespaces});
  EXPECT_TRUE(Reaches(lb, api));
  EXPECT_FALSE(Reaches(dev, api));
  const json allowed = StatusOf("namespaces#0");
  const json refused = StatusOf("namespaces");
  EXPECT_GE(allowed.at("allowed"), 4);
  EXPECT_GE(refused.at("refused"), 4);
  Apply({kNamespaces,
         {{"name", "api"},
          {"to", {{"namespace", "prod"}, {"job", "api"}}},
          {"allow", {{{"from", {"outside"}}}}}}});
  EXPECT_EQ(StatusOf("namespaces#0"), allowed);
  EXPECT_EQ(StatusOf("namespaces"), refused);
}

TEST_F(PolicyLife, RequiredPoliciesRefuseAnAddUntilTheyAreApplied) {
  const json config = DualStack({{"policy", {{"required", true}}}});
  EXPECT_THAT(
      RunPlugin("ADD", config),
      Fails(11, Msg(HasSubstr("policies are required")), Details(HasSubstr("policy apply"))));
  Apply({});
  EXPECT_EQ(RunPlugin("ADD", config).exit_code, 0);
}

TEST_F(PolicyLife, RequiredPoliciesRefuseAnAddAfterAReboot) {
  const json config = DualStack({{"policy", {{"required", true}}}});
  Apply({kNamespaces});
  Start("prod", "api", config);
  const std::string compiled = FindFile(kCompiled).value();
  // As where /run is not emptied; and as usual.
  ReplaceFile(kCompiled, Cat("00000000-0000-4000-8000-000000000000", compiled.substr(36)));
  Node& next = AddContainer("next");
  const Variables variables = As("next", next, LabelsOf("prod", "next"));
  EXPECT_THAT(RunPlugin("ADD", config, variables), Fails(11));
  host().Must(
      Words(Cat("ip link delete ", ReadRecord("prod-api").at("host_veth").get<std::string>())));
  fs::remove_all("/run/nomad-bridge");
  host().Must(Words("nft flush ruleset"));
  host().Must(Words("ip link delete nomad"));
  EXPECT_THAT(RunPlugin("ADD", config, variables), Fails(11, Details(HasSubstr("policy apply"))));
  EXPECT_THAT(RunLine("policy status"), Exits(0, Err(HasSubstr("since the node booted"))));
  Apply({kNamespaces});
  Node& api = Start("prod", "again", config);
  Node& dev = Start("dev", "test", config);
  EXPECT_FALSE(Reaches(dev, api));
}

}  // namespace
}  // namespace nomad_bridge::test
