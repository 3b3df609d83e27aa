// policy status -flows: what an operator needs to find the entry that is missing.
#include "tests/plugin/policy_world.h"
#include "tests/support/soon.h"

namespace nomad_bridge::test {
namespace {

class PolicyFlows : public PolicyWorld {
 protected:
  [[nodiscard]] json Flows() { return json::parse(Output("policy status -flows -json")); }

  bool Connects(const Node& from, const Node& to, int family = 4) {
    return IsAnswered(from, Protocol::kTcp, AddressOfNode(to, family));
  }

  // An allocation of namespace dev whose job has any name.
  Node& StartNamed(const std::string& container, const std::string& job) {
    Node& node = AddContainer(container);
    results_[container] = Attach(DualStack(), As(container, node, LabelsOf("dev", job)));
    return node;
  }

  // Of a job, as flows have it.
  [[nodiscard]] json End(const Node& node,
                         const std::string& nomad_namespace,
                         const std::string& job) {
    return {{"name", Cat(nomad_namespace, '/', job, "/main")},
            {"address", AddressOfNode(node)},
            {"namespace", nomad_namespace},
            {"job", job},
            {"group", "main"},
            {"node", false}};
  }
};

// An allocation of another namespace has tried one that is closed.
class RefusedFlows : public PolicyFlows {
 protected:
  void SetUp() override {
    Apply({kNamespaces});
    EXPECT_FALSE(Connects(etl_, api_));
  }

  const Node& api_ = Start("prod", "api");
  const Node& etl_ = Start("dev", "etl");
};

TEST_F(PolicyFlows, NameTheEntryThatWouldAllowThemUnderAudit) {
  const Node& api = Start("prod", "api");
  const Node& scraper = Start("infra", "prometheus");
  Apply({Audited()});
  ASSERT_TRUE(Connects(scraper, api));

  const json document = Flows();
  EXPECT_EQ(document["complete"], true);
  ASSERT_EQ(document["flows"].size(), 1U) << document;
  const json flow = document["flows"][0];
  EXPECT_EQ(flow["from"], End(scraper, "infra", "prometheus"));
  EXPECT_EQ(flow["to"], End(api, "prod", "api"));
  EXPECT_EQ(flow["port"], "tcp/80");
  EXPECT_EQ(flow["tries"], 1);
  EXPECT_EQ(flow["refused"], false);
  EXPECT_EQ(flow["allowedNow"], false);
  EXPECT_EQ(flow["by"], "namespaces");
  EXPECT_EQ(flow["policy"], "namespaces");
  const std::string narrow =
      Format("stty cols 80; NO_COLOR=1 {} policy status -flows", BinaryUnderTest());
  EXPECT_THAT(host().Run({"script", "-qec", narrow, "/dev/null"}).out,
              AllOf(HasSubstr("…"), HasSubstr("  would be refused by namespaces\r\n")));

  json enforced = kNamespaces;
  enforced["allow"].push_back(flow["entry"]);
  Apply({enforced});
  EXPECT_TRUE(Connects(scraper, api));
  EXPECT_TRUE(Flows()["flows"][0]["allowedNow"]);
}

// A job may have any name. An entry for one job must not open the policy to all others.
TEST_F(PolicyFlows, SuggestedNamesMatchOnlyThemselves) {
  const Node& api = Start("prod", "api");
  const Node& star = StartNamed("star", "*");
  const Node& other = StartNamed("other", "a?b");
  const Node& third = Start("dev", "third");
  Apply({kNamespaces});
  ASSERT_FALSE(Connects(star, api));
  ASSERT_FALSE(Connects(other, api));
  json enforced = kNamespaces;
  const json document = Flows();
  for (const json& flow : document["flows"]) {
    enforced["allow"].push_back(flow["entry"]);
  }
  EXPECT_THAT(Output("policy status -flows"), HasSubstr(R"("job":"\\*")"));
  Apply({enforced});
  EXPECT_TRUE(Connects(star, api));
  EXPECT_TRUE(Connects(other, api));
  EXPECT_FALSE(Connects(third, api));
}

TEST_F(PolicyFlows, ShowRefusalsByFamilyAndProtocol) {
  const Node& api = Start("prod", "api");
  const Node& etl = Start("dev", "etl");
  Apply({kNamespaces});
  EXPECT_FALSE(Connects(etl, api, 4));
  EXPECT_FALSE(Connects(etl, api, 6));
  EXPECT_NE(etl.Run({"ping", "-c", "1", "-W", "1", AddressOfNode(api)}).exit_code, 0);

  std::set<std::string> refused;
  EXPECT_EQ(Elements("refused_flows4").size(), 2U);
  EXPECT_EQ(Elements("refused_flows6").size(), 1U);
  const json document = Flows();
  for (const json& flow : document["flows"]) {
    EXPECT_EQ(flow["refused"], true) << flow;
    refused.insert(Cat(std::string(flow["to"]["address"]), ' ', std::string(flow["port"])));
  }
  EXPECT_EQ(refused,
            (std::set{Cat(AddressOfNode(api, 4), " tcp/80"),
                      Cat(AddressOfNode(api, 6), " tcp/80"),
                      Cat(AddressOfNode(api, 4), " icmp")}));
}

// Audited first, then refused.
TEST_F(PolicyFlows, AreMergedForTheSameSourceTargetAndPort) {
  const Node& api = Start("prod", "api");
  const Node& etl = Start("dev", "etl");
  Apply({Audited()});
  EXPECT_TRUE(Connects(etl, api));
  Apply({kNamespaces});
  EXPECT_FALSE(Connects(etl, api));

  const json document = Flows();
  ASSERT_EQ(document["flows"].size(), 1U) << document;
  EXPECT_GE(document["flows"][0]["tries"], 2);
  EXPECT_EQ(document["flows"][0]["refused"], true);
}

TEST_F(RefusedFlows, KeepTheirNamesWhileWatched) {
  const Process watch =
      Process::Start({.argv = {"sh",
                               "-c",
                               Format("sleep 60 | script -qefc '{} policy status -flows -watch' "
                                      "/run/watched >/dev/null",
                                      Line({}).argv.front())},
                      .in_child = [&] { host().Enter(); }});
  const auto times_shown = [] {
    const std::string watched = FindFile("/run/watched").value_or("");
    std::size_t times = 0;
    for (std::size_t at = watched.find("dev/etl/main"); at != watched.npos;
         at = watched.find("dev/etl/main", at + 1)) {
      ++times;
    }
    return times;
  };
  EXPECT_TRUE(Soon([&] { return times_shown() != 0; }));
  Detach(DualStack(), As(etl_.name(), etl_));
  const std::size_t before = times_shown();
  EXPECT_TRUE(Soon([&] { return times_shown() > before + 1; }));
}

TEST_F(PolicyFlows, AreLoggedOnceAndAgainWhenAnotherRuleDecides) {
  const Node& api = Start("prod", "api");
  const Node& etl = Start("dev", "etl");
  Apply({Audited()});
  EXPECT_EQ(Output("policy status -flows -log"), "");
  EXPECT_TRUE(Connects(etl, api));
  const std::string way = Format(
      "dev/etl/main ({}) -> prod/api/main ({}) tcp/80", AddressOfNode(etl), AddressOfNode(api));
  EXPECT_EQ(Output("policy status -flows -log"), way + ": would be refused by namespaces\n");
  EXPECT_TRUE(Connects(etl, api));
  EXPECT_EQ(Output("policy status -flows -log"), "");

  Apply({kNamespaces});
  EXPECT_EQ(Output("policy status -flows -log"), way + ": refused by namespaces\n");
  Apply({kNamespaces,
         {{"name", "etl"},
          {"to", {{"namespace", "prod"}}},
          {"allow", {{{"from", {{{"namespace", "dev"}}}}}}}}});
  const json logged = json::parse(Output("policy status -flows -log -json"));
  EXPECT_EQ(logged["from"], End(etl, "dev", "etl"));
  EXPECT_EQ(logged["allowedNow"], true);
  EXPECT_EQ(logged["by"], "etl#0");
}

TEST_F(RefusedFlows, KeepTheNamesThatWereLogged) {
  EXPECT_NE(Output("policy status -flows -log"), "");
  Detach(DualStack(), As(etl_.name(), etl_));
  EXPECT_EQ(Flows()["flows"][0]["from"]["name"], "dev/etl/main");
  EXPECT_EQ(Output("policy status -flows -log"), "");
}

TEST_F(RefusedFlows, AreLoggedAgainAfterTheLogIsDamaged) {
  EXPECT_NE(Output("policy status -flows -log"), "");
  for (const char* const text : {"{",
                                 "[]",
                                 R"({"printed": [1], "holders": {"a": 1}})",
                                 R"({"printed": 1, "holders": [1, {"address": 1}]})"}) {
    ReplaceFile("/run/nomad-bridge/.flows", text);
    EXPECT_THAT(Output("policy status -flows -log"), HasSubstr("refused by namespaces")) << text;
  }
}

TEST_F(RefusedFlows, ShowOnlyTheAddressOfARemovedAllocation) {
  Detach(DualStack(), As(etl_.name(), etl_));

  const json flow = Flows()["flows"][0];
  EXPECT_EQ(flow["from"]["job"], nullptr);
  EXPECT_EQ(flow["from"]["address"], AddressOfNode(etl_));
  EXPECT_EQ(flow["entry"], nullptr);
}

// Somebody has put a set of another shape in the place of ours.
TEST_F(RefusedFlows, AreLeftOutIfTheirSetHasAnotherShape) {
  host().Nft(
      "flush chain inet nomad-bridge refuse_noted; flush chain inet nomad-bridge drop_noted; "
      "delete set inet nomad-bridge refused_flows4; add set inet nomad-bridge refused_flows4 "
      "{ type ipv4_addr; flags dynamic,timeout; timeout 1h; elements = { 10.0.0.1 }; }");
  EXPECT_EQ(Flows()["flows"].size(), 0U);
  EXPECT_THAT(RunLine("policy status"), Exits(1, Err(HasSubstr("nomad-bridge reconcile"))));
  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  EXPECT_FALSE(Connects(etl_, api_));
  EXPECT_EQ(Flows()["flows"].size(), 1U);
}

TEST_F(PolicyFlows, SayThatNoPoliciesWereApplied) {
  EXPECT_THAT(RunLine("policy status -flows"),
              Exits(0, Err(HasSubstr("no policies were applied"))));
}

TEST_F(RefusedFlows, AreNoElementsWithoutAnOwnerAndComeBackWithASavedRuleset) {
  EXPECT_THAT(Output("reconcile -dry-run"), HasSubstr("nothing to repair"));
  EXPECT_EQ(Flows()["flows"].size(), 1U);
  host().Shell("nft list ruleset > /run/saved; nft flush ruleset; nft -f /run/saved");

  EXPECT_EQ(RunLine("reconcile").exit_code, 0);
  EXPECT_EQ(Flows()["flows"].size(), 1U);
  EXPECT_FALSE(Connects(etl_, api_));
  host().Shell("nft flush ruleset");
  EXPECT_EQ(RunLine("reconcile").exit_code, 0);
  EXPECT_THAT(Output("policy status -flows"), HasSubstr("their rules are in the kernel since 20"));
}

TEST_F(PolicyFlows, SayThatTheirSetIsFullAndStillRefuse) {
  const Node& api = Start("prod", "api");
  const Node& etl = Start("dev", "etl");
  Apply({kNamespaces});
  std::string full = "add element inet nomad-bridge refused_flows4 {";
  for (int i = 0; i < 4096; ++i) {
    full += Format(" 198.51.{}.{} . 192.0.2.1 . tcp . 80,", i / 256, i % 256);
  }
  host().Nft(Cat(full, " }"));

  EXPECT_FALSE(Connects(etl, api));
  EXPECT_EQ(Flows()["complete"], false);
  EXPECT_THAT(RunLine("policy status -flows"), Exits(0, Err(HasSubstr("a set of flows is full"))));
}

TEST_F(PolicyFlows, AreDottedInTheGraph) {
  const Node& api = Start("prod", "api");
  Start("prod", "db");
  const Node& scraper = Start("infra", "prometheus");
  json policy = kNamespaces;
  policy["allow"].push_back(
      {{"from", {{{"namespace", "infra"}, {"job", "prometheus"}}}}, {"ports", {"tcp/9100"}}});
  Apply({policy});
  EXPECT_FALSE(Connects(scraper, api));

  const std::string graph = Output("policy show -graph");
  EXPECT_THAT(graph, HasSubstr("flowchart LR\n"));
  const auto id = [&](const std::string& name) {
    std::smatch found;
    EXPECT_TRUE(std::regex_search(graph, found, std::regex(Format("(n[0-9]+)\\[\"{}\"\\]", name))));
    return found.str(1);
  };
  EXPECT_THAT(graph, HasSubstr(Format("  {} -->|tcp/9100| {}\n", id("infra"), id("prod"))));
  EXPECT_THAT(graph, HasSubstr(Format("  {} -.->|refused 1| {}\n", id("infra"), id("prod"))));
  EXPECT_THAT(graph, Not(HasSubstr(Format("  {} -->|all| {}", id("infra"), id("prod")))));
  EXPECT_THAT(Output("policy show -graph -jobs"), HasSubstr("[\"prod/db\"]"));
}

TEST_F(PolicyFlows, StatusShowsTheRulesAndADifferenceInTheKernel) {
  Start("prod", "api");
  Apply({kNamespaces});
  EXPECT_THAT(Output("policy status"), HasSubstr("allow from same-namespace"));
  host().Must(Words("nft flush chain inet nomad-bridge judge"));
  EXPECT_THAT(RunLine("policy status"),
              Exits(1, Err(AllOf(HasSubstr("chain judge"), HasSubstr("nomad-bridge reconcile")))));
  EXPECT_THAT(RunLine("reconcile"), Exits(0));
  EXPECT_EQ(RunLine("policy status").exit_code, 0);
}

TEST_F(PolicyFlows, DryRunListsWhatTheFilesWouldRefuse) {
  const Node& api = Start("prod", "api");
  const Node& etl = Start("dev", "etl");
  const Node& scraper = Start("infra", "prometheus");
  Apply({Audited()});
  EXPECT_TRUE(Connects(etl, api, 6));
  host().Must(Words("conntrack -F"));  // only the kernel's flows know that connection
  EXPECT_TRUE(Connects(scraper, api));
  host().Must(Words("nft flush set inet nomad-bridge audited_flows4"));  // and only conntrack this

  WritePolicies({kNamespaces});
  const Outcome refused = Run({"policy", "apply", "-dry-run", kDirectory});
  EXPECT_THAT(refused, Exits(1));
  EXPECT_THAT(refused.out,
              ::testing::ContainsRegex(
                  "dev/etl/main +prod/api/main +tcp/80 +(now|[0-9]+s ago) +namespaces"));
  EXPECT_THAT(
      refused.out,
      ::testing::ContainsRegex("infra/prometheus/main +prod/api/main +tcp/80 +now +namespaces"));
  const json document = json::parse(Run({"policy", "apply", "-dry-run", "-json", kDirectory}).out);
  ASSERT_EQ(document["wouldEnd"].size(), 2U) << document;

  json wider = kNamespaces;
  for (const json& flow : document["wouldEnd"]) {
    EXPECT_EQ(flow["policy"], "namespaces");
    wider["allow"].push_back(flow["entry"]);
  }
  WritePolicies({wider});
  EXPECT_THAT(Run({"policy", "apply", "-dry-run", kDirectory}), Exits(0));
  WritePolicies({Audited()});
  EXPECT_THAT(Run({"policy", "apply", "-dry-run", kDirectory}), Exits(0));
}

TEST_F(PolicyFlows, ApplyShowsChangesByGroup) {
  Start("prod", "api");
  Start("prod", "db");
  WritePolicies({Audited()});
  const Outcome applied = Run({"policy", "apply", kDirectory});
  EXPECT_THAT(applied, Exits(0, Err(HasSubstr("nothing is closed"))));
  EXPECT_THAT(applied.out, ::testing::ContainsRegex("prod +api +main +1 +- -> namespaces"));
  EXPECT_THAT(applied.out,
              HasSubstr("\nprod/api/main, prod/db/main\n"
                        "  + namespaces: allow from same-namespace\n"));
  json wider = kNamespaces;
  wider["allow"].push_back({{"from", {{{"namespace", "infra"}}}}, {"ports", {"tcp/9100"}}});
  WritePolicies({Audited(wider)});
  const Outcome noted = Run({"policy", "apply", kDirectory});
  EXPECT_THAT(noted, Exits(0, Err(HasSubstr("noted only"))));
  EXPECT_THAT(noted.out,
              ::testing::EndsWith("\nprod/api/main, prod/db/main\n"
                                  "  + namespaces: allow from namespace=infra ports tcp/9100\n"));

  WritePolicies({wider});
  const Outcome enforced = Run({"policy", "apply", kDirectory});
  EXPECT_THAT(enforced, Exits(0, Err(HasSubstr("the reach of 2 attachments has changed"))));
  EXPECT_THAT(enforced.out, HasSubstr("namespaces (audit) -> namespaces"));
  EXPECT_THAT(enforced.out, Not(HasSubstr("  + ")));
  WritePolicies({kNamespaces});
  const Outcome narrower = Run({"policy", "apply", "-v", kDirectory});
  EXPECT_THAT(narrower.out, HasSubstr("ALLOC"));
  EXPECT_THAT(narrower.out,
              HasSubstr("  - namespaces: allow from namespace=infra ports tcp/9100\n"));
}

}  // namespace
}  // namespace nomad_bridge::test
