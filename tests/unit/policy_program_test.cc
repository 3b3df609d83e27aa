// What policies are compiled to: names, counters, and the text that ADD reads.
#include <regex>

#include "plugin/policy/program.h"
#include "tests/unit/policy_files.h"

namespace nomad_bridge::test {
namespace {

using cni::Workload;
using policy::Chain;
using policy::CounterOf;
using policy::Judgement;
using policy::Program;
using policy::Step;

const Workload kLb = {.nomad_namespace = "prod", .job = "lb", .group = "lb"};
const Workload kApi = {.nomad_namespace = "prod", .job = "api", .group = "web"};

class PolicyProgram : public PolicyFiles {
 protected:
  Program Compile(const std::string& policies, const std::string& addresses = R"("dns": [])") {
    Write("a.json",
          Format(R"({"version": 1, "addresses": {{}}, "policies": [{}]})", addresses, policies));
    return Program(Read());
  }
  // The names of outcomes and counters, as an overview.
  static std::string Outline(const Chain& chain) {
    constexpr std::array<const char*, 6> kOutcomes = {
        "count", "note", "return", "goto", "reject", "drop"};
    std::string text;
    for (const Step& step : chain.steps) {
      const std::string counter = step.counter.substr(0, step.counter.rfind('-'));
      text += Cat(text.empty() ? "" : "; ",
                  step.comment,
                  ' ',
                  kOutcomes.at(static_cast<std::size_t>(step.outcome)),
                  counter.empty() ? "" : Cat(' ', counter));
    }
    return text;
  }
};

constexpr const char* kOnlyLb =
    R"({"name": "api", "to": {"namespace": "prod", "job": "api"}, "allow": [
         {"from": [{"namespace": "prod", "job": "lb"}], "ports": ["tcp/8080"]}]})";

TEST_F(PolicyProgram, JudgesOnlyWhatAPolicySelects) {
  const Program program = Compile(kOnlyLb);
  const Judgement& api = program.JudgementOf(kApi);
  const Judgement& lb = program.JudgementOf(kLb);
  EXPECT_TRUE(api.in);
  EXPECT_EQ(api.out, std::nullopt);
  EXPECT_THAT(api.sets, IsEmpty());
  EXPECT_THAT(lb.sets, SizeIs(1));
  EXPECT_EQ(lb.in, std::nullopt);
  EXPECT_EQ(program.SetTexts().at(lb.sets[0]), "namespace=prod job=lb");
  EXPECT_EQ(program.JudgementOf({.nomad_namespace = "", .job = "api", .group = ""}), Judgement());
  EXPECT_EQ(Program().JudgementOf(kApi), Judgement());
  EXPECT_TRUE(Program().empty());
  EXPECT_EQ(Program().Revision(), "");
}

TEST_F(PolicyProgram, RefusesWhatNoAllowLetsPass) {
  const std::vector<Chain> chains = Compile(kOnlyLb).ChainsOf(kApi);
  ASSERT_THAT(chains, SizeIs(1));
  EXPECT_EQ(chains[0].name, Compile(kOnlyLb).JudgementOf(kApi).in);
  EXPECT_EQ(Outline(chains[0]), "api#0 return api-0; api count api-refused; api reject");
}

TEST_F(PolicyProgram, TriesAuditedPoliciesBehindEnforcedOnes) {
  const std::string audited =
      R"({"name": "ns", "to": {"namespace": "*"}, "only": true, "mode": "audit", "allow": [
           {"from": ["same-namespace"]}]})";
  const std::vector<Chain> chains = Compile(Cat(kOnlyLb, ",", audited)).ChainsOf(kApi);
  ASSERT_THAT(chains, SizeIs(2));
  EXPECT_EQ(Outline(chains[0]), "ns#0 return ns-0; ns note ns-would");
  EXPECT_EQ(Outline(chains[1]), "api#0 goto api-0; api count api-refused; api reject");
  EXPECT_EQ(chains[1].steps[0].next, chains[0].name);
  const std::vector<Chain> alone = Compile(Cat(kOnlyLb, ",", audited)).ChainsOf(kLb);
  ASSERT_THAT(alone, SizeIs(1));
  EXPECT_EQ(Outline(alone[0]), "ns#0 return ns-0; ns note ns-would");
}

TEST_F(PolicyProgram, DeniesBeforeItAllows) {
  const std::vector<Chain> chains = Compile(R"(
      {"name": "out", "from": {"namespace": "*"}, "refuse": "drop", "allow": [
         {"to": ["node", "outside"], "ports": ["udp/53", "tcp/53"]}],
       "deny": [{"to": ["10.0.0.0/8"]}]},
      {"name": "try", "from": {"namespace": "*"}, "mode": "audit", "deny": [{"to": ["any"]}]})")
                                        .ChainsOf(kApi);
  ASSERT_THAT(chains, SizeIs(1));
  EXPECT_EQ(Outline(chains[0]),
            "out#deny0 drop out-deny0; try#deny0 note try-deny0; out#0 return out-0; out#0 return "
            "out-0; out#0 return out-0; out#0 return out-0; out count out-refused; out drop");
  EXPECT_THAT(chains[0].name, StartsWith("out-"));
}

TEST_F(PolicyProgram, DropsOnlyWhereEveryPolicyDoes) {
  const std::string drops =
      R"({"name": "d", "to": {"namespace": "prod"}, "allow": [], "refuse": "drop"})";
  EXPECT_EQ(Outline(Compile(drops).ChainsOf(kApi)[0]), "d count d-refused; d drop");
  EXPECT_EQ(Outline(Compile(Cat(drops, ",", kOnlyLb)).ChainsOf(kApi)[0]),
            "api#0 return api-0; d count d-refused; api count api-refused; d, api reject");
}

TEST_F(PolicyProgram, HasNoStepForTrafficFromTheNode) {
  const std::string from_node =
      R"({"name": "a", "to": {"namespace": "prod"}, "allow": [{"from": ["node"]}]})";
  EXPECT_EQ(Outline(Compile(from_node).ChainsOf(kApi)[0]), "a count a-refused; a reject");
}

TEST_F(PolicyProgram, KeepsTheNamesOfUnchangedParts) {
  const Program one = Compile(kOnlyLb);
  const Program more = Compile(Cat(
      R"({"name": "dev", "to": {"namespace": "dev"}, "allow": [{"from": ["same-namespace"]}]},)",
      kOnlyLb));
  EXPECT_EQ(one.ChainsOf(kApi), more.ChainsOf(kApi));
  EXPECT_NE(one.Revision(), more.Revision());
  EXPECT_EQ(one.Revision(), Compile(kOnlyLb).Revision());
  for (const auto& [name, counter] : one.Counters()) {
    EXPECT_TRUE(more.Counters().contains(name)) << name;
  }
  const std::string port_changed = std::regex_replace(kOnlyLb, std::regex("8080"), "8081");
  const Program changed = Compile(port_changed);
  EXPECT_NE(one.JudgementOf(kApi).in, changed.JudgementOf(kApi).in);
  EXPECT_EQ(one.JudgementOf(kLb), changed.JudgementOf(kLb));
  std::vector<std::string> kept;
  for (const auto& [name, counter] : one.Counters()) {
    if (changed.Counters().contains(name)) {
      kept.push_back(counter.rule);
    }
  }
  EXPECT_THAT(kept, ElementsAre("api"));
}

TEST_F(PolicyProgram, NamesAListByItsContent) {
  const std::string to_office =
      R"({"name": "a", "from": {"namespace": "*"}, "allow": [{"to": ["office", "10.9.0.0/16"]}]})";
  const Program one = Compile(to_office, R"("office": ["10.1.0.0/16", "fd00::/64"], "unused": [])");
  const Program other = Compile(to_office, R"("office": ["10.2.0.0/16"], "unused": [])");
  ASSERT_THAT(one.Lists(), SizeIs(2));
  EXPECT_THAT(one.Lists().rbegin()->first, StartsWith("office-"));
  EXPECT_THAT(one.Lists().rbegin()->second, SizeIs(2));
  EXPECT_NE(one.Lists().rbegin()->first, other.Lists().rbegin()->first);
  EXPECT_EQ(one.Lists().begin()->first, other.Lists().begin()->first);
  EXPECT_NE(one.JudgementOf(kApi).out, other.JudgementOf(kApi).out);
  EXPECT_EQ(one.Counters().begin()->first, other.Counters().begin()->first);
}

// An allocation of a namespace that is called "*" belongs to that namespace only: the name is no
// glob, and is not mixed up with a selector's set.
TEST_F(PolicyProgram, HasASetOfEachNamespaceWhereSomePolicySaysSo) {
  const Program program = Compile(
      R"({"name": "ns", "to": {"namespace": "*"}, "allow": [
           {"from": ["same-namespace", {"namespace": "prod"}]}]})");
  const Judgement& api = program.JudgementOf(kApi);
  ASSERT_THAT(api.sets, SizeIs(2));
  EXPECT_EQ(api.sets, program.JudgementOf(kLb).sets);
  EXPECT_EQ(program.SetTexts({"prod"}).size(), 2U);
  const Judgement star = program.JudgementOf({.nomad_namespace = "*", .job = "x", .group = "x"});
  ASSERT_THAT(star.sets, SizeIs(1));
  EXPECT_THAT(api.sets, Not(Contains(star.sets[0])));
  EXPECT_NE(star.in, api.in);
  EXPECT_THAT(Compile(kOnlyLb).JudgementOf(kApi).sets, IsEmpty());
}

TEST_F(PolicyProgram, ComesBackFromItsText) {
  const Program program = Compile(
      Cat(kOnlyLb,
          R"(, {"name": "all", "from": {"namespace": "d?v-*", "group": "a b"}, "mode": "audit",
               "refuse": "drop", "allow": [{"to": ["dns", "same-namespace", "outside", "node"],
               "ports": ["udp/53", "icmp", "sctp"]}, {"to": ["any"]}],
               "deny": [{"to": ["fd00::/64", {"namespace": "x", "job": "y z", "group": "g"}]}]},
             {"name": "only", "to": {"namespace": "p"}, "only": true, "allow": []})"),
      R"("dns": ["10.0.0.53", "fd00::53"])");
  const Program back = Program(program.Text());
  EXPECT_EQ(back.Text(), program.Text());
  const Workload dev = {.nomad_namespace = "dev-1", .job = "x", .group = "a b"};
  EXPECT_THAT(back.PoliciesAbout(policy::Direction::kTo, dev), IsEmpty());
  const std::vector<policy::Policy> about = back.PoliciesAbout(policy::Direction::kFrom, dev);
  EXPECT_THAT(about, SizeIs(1));
  EXPECT_EQ(Program({.addresses = Read().addresses, .policies = about}).Counters().size(), 4U);
  EXPECT_EQ(back.ChainsOf(kApi), program.ChainsOf(kApi));
  EXPECT_TRUE(Program(Program().Text()).empty());
  EXPECT_EQ(back.Counters().size(), 7U);
}

TEST_F(PolicyProgram, IsNotReadFromADamagedText) {
  const std::string text = Compile(kOnlyLb).Text();
  for (std::size_t end = 0; end < text.size(); ++end) {
    EXPECT_EQ(Caught([&] { return Program(text.substr(0, end)); }).code(), Code::kDecode) << end;
  }
  EXPECT_EQ(Caught([&] { return Program(Cat(text, "x")); }).code(), Code::kDecode);
  EXPECT_EQ(Caught([] { return Program("{}"); }).code(), Code::kDecode);
}

TEST_F(PolicyProgram, NoticesADamagedPolicyWhenItIsNeeded) {
  std::string text = Compile(kOnlyLb).Text();
  text[text.find("\n{") + 1] = '[';
  const Program program = Program(text);
  EXPECT_THAT(Caught([&] { return program.ChainsOf(kApi); }), IsError(Code::kDecode));
  EXPECT_THAT(Caught([&] { return program.Counters(); }), IsError(Code::kDecode));
}

TEST_F(PolicyProgram, NoticesADamagedList) {
  std::string text =
      Compile(R"({"name": "a", "from": {"namespace": "*"}, "deny": [{"to": ["10.9.0.0/16"]}]})")
          .Text();
  text[text.rfind("10.9") + 3] = '8';
  const Program program = Program(text);
  EXPECT_THAT(Caught([&] { return program.Lists(); }), IsError(Code::kDecode));
}

}  // namespace
}  // namespace nomad_bridge::test
