// docs/firewall.md and docs/inside/ruleset/ show what the kernel holds, to the letter.
#include "tests/plugin/cli_world.h"

namespace nomad_bridge::test {
namespace {

// The block in the document that begins with ```<language>, without its fences.
std::string Block(const std::string& language) {
  const std::string document = ReadFixture("../docs/firewall.md");
  const std::string fence = Cat("\n```", language, "\n");
  const std::size_t start = document.find(fence);
  EXPECT_NE(start, std::string::npos) << "no block of " << language;
  if (start == std::string::npos) {
    return "";
  }
  const std::size_t text = start + fence.size();
  return document.substr(text, document.find("```", text) - text);
}

class RulesDocument : public CliWorld {
 protected:
  // The allocation of the document.
  RulesDocument() {
    Attach(Publish({Port(8080, 80)}, DualStack()),
           As("5f3c1a2b",
              container(),
              "NOMAD_JOB_ID=billing;NOMAD_GROUP_NAME=api;NOMAD_ALLOC_ID=5f3c1a2b"));
  }
};

TEST_F(RulesDocument, ShowsOurTable) {
  std::string listed = ListTable();
  const std::size_t boot = listed.find("boot=") + std::string("boot=").size();
  listed.replace(boot, std::string("9c1e77a0").size(), "9c1e77a0");
  EXPECT_EQ(ReadFixture("../docs/inside/ruleset/inet.nft"), listed);
}

TEST_F(RulesDocument, ShowsOurTableOfTheBridgeFamily) {
  std::string listed = host().Must({"nft", "list", "table", "bridge", "nomad-bridge"});
  // Two elements of one set come in any order.
  const std::string own = "fd00:26::2";
  const std::string link_local = "fe80::858:acff:fe1a:4002";
  if (listed.find(link_local) < listed.find(own)) {
    listed.replace(listed.find(own), own.size(), "-");
    listed.replace(listed.find(link_local), link_local.size(), own);
    listed.replace(listed.find('-', listed.find(own)), 1, link_local);
  }
  EXPECT_EQ(ReadFixture("../docs/inside/ruleset/bridge.nft"), listed);
}

TEST_F(RulesDocument, ShowsTheRulesOfPolicies) {
  EnsureDirectory("/run/policy.d");
  ReplaceFile("/run/policy.d/api.json", R"({"version": 1, "policies": [
    {"name": "api", "to": {"namespace": "prod"},
     "allow": [{"from": ["same-namespace"], "ports": ["tcp/80"]}, {"from": ["outside"]}]}]})");
  const json config = DualStack();
  Node& node = AddContainer("prod");
  Attach(config,
         As("9d01c7e4", node, "NOMAD_NAMESPACE=prod;NOMAD_JOB_ID=web;NOMAD_ALLOC_ID=9d01c7e4"));
  ASSERT_THAT(RunLine("policy apply /run/policy.d"), Exits(0));
  const std::string table = ListTable();
  const std::size_t begin = table.find("\tchain in-");
  ASSERT_NE(begin, std::string::npos) << table;
  const std::string chain = table.substr(begin + 7, table.find(' ', begin + 7) - begin - 7);
  std::string listed;
  const auto list_chains = [&](const std::string& family, const std::string& names) {
    for (const std::string& name : Words(names)) {
      listed += host().Must({"nft", "list", "chain", family, "nomad-bridge", name});
    }
  };
  list_chains("inet",
              Format("admit admit_to_node judge judge_to_node unknown goes_on answers refuse "
                     "refuse_noted note_audited {} {}-probes {}-answers",
                     chain,
                     chain,
                     chain));
  listed += host().Must(Words("nft list map inet nomad-bridge in4"));
  list_chains("bridge", Format("from_judged link_local to_judged {} forward", chain));
  EXPECT_EQ(ReadFixture("../docs/inside/ruleset/policies.nft"), listed);
}

TEST_F(RulesDocument, ShowsWhatIptablesLists) {
  EXPECT_EQ(Block("iptables"), host().Must({"iptables", "-S"}));
  EXPECT_EQ(Block("iptables"), host().Must({"ip6tables", "-S"}));
}

}  // namespace
}  // namespace nomad_bridge::test
