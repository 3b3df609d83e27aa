// Commands that an operator runs if a published port does not answer.
#pragma once

#include "tests/plugin/published_world.h"

namespace nomad_bridge::test {

struct Broken : Named {
  // Run by sh, on the host, or in the container if the name begins with "Container". $VETH is the
  // host's end of its pair, $ADDRESS its address.
  std::string damage;
  std::string says = {};  // inspect, first of all
  Way way = kTcp;
  std::string failed = {};  // the station at which it ends
  std::string advice = {};  // a part of it, where no command heals

  [[nodiscard]] bool IsInContainer() const { return name.starts_with("Container"); }
};

class ProbeWorld : public PublishedWorld, public ::testing::WithParamInterface<Broken> {
 protected:
  void SetUp() override {
    AddWays();
    AttachPublished(As(kAllocation, container(), NomadArgs("billing", kAllocation)));
  }

  // What inspect says of it, and to a client.
  [[nodiscard]] json Diagnose(Way way) { return DiagnosisOf(Question(way)); }
  [[nodiscard]] json DiagnoseFrom(const std::string& client) {
    return DiagnosisOf(Cat("8080 -from ", client));
  }
  [[nodiscard]] json DiagnosisOf(const std::string& words) {
    const Outcome outcome = RunLine(Cat("inspect -json ", words));
    json diagnosis = At(outcome.json, "/attachments/0/diagnosis");
    EXPECT_EQ(outcome.exit_code, diagnosis.value("causes", json::array()).empty() ? 0 : 1)
        << outcome;
    return diagnosis;
  }

  // The first cause after `damage` on the node, which shows.
  [[nodiscard]] json CauseAfter(const std::string& damage, Way way = kTcp) {
    EXPECT_TRUE(Answers(way));
    host().Shell(Filled(damage));
    EXPECT_FALSE(Answers(way, std::chrono::milliseconds(250)));
    return At(Diagnose(way), "/causes/0");
  }

  // Pastes all fixes that it prints, until it prints none. Each only once: two causes may have the
  // same.
  void PasteFixes(Way way) {
    constexpr int kMost = 6;
    json causes;
    for (int i = 0; i < kMost; ++i) {
      causes = Diagnose(way).value("causes", json::array());
      if (causes.empty()) {
        return;
      }
      std::set<std::string> pasted;
      for (const json& cause : causes) {
        const std::string fix = cause.at("fix");
        EXPECT_THAT(fix, AllOf(Not(IsEmpty()), Not(EndsWith(" ")))) << cause;
        if (pasted.insert(fix).second) {
          Paste(fix);
        }
      }
    }
    ADD_FAILURE() << causes;
  }

  // Those that doctor has something to say by.
  [[nodiscard]] std::set<std::string> DoctorsChecks() {
    std::set<std::string> checks;
    const json document = RunLine("doctor -json").json;
    for (const json& check : document.value("checks", json::array())) {
      if (check.at("verdict") != "ok") {
        checks.insert(check.at("check"));
      }
    }
    return checks;
  }

  void ExpectNoCause() {
    EXPECT_EQ(Diagnose(kTcp).at("causes"), json::array());
    EXPECT_FALSE(DoctorsChecks().contains("ports.blocked"));
  }

  // What is done on the node, and connections pass.
  void ExpectNoCauseAfter(const std::string& harmless) {
    host().Shell(Filled(harmless));
    ASSERT_TRUE(Answers(kTcp));
    ExpectNoCause();
  }

  void BreakAndHeal(const Broken& broken) {
    ASSERT_NE(broken.says, "") << "whatever inspect says would do";
    ASSERT_TRUE(Answers(broken.way));
    const json well = Diagnose(broken.way);
    ASSERT_EQ(well.at("cause"), nullptr);
    ASSERT_EQ(FailedStation(well), "");
    (broken.IsInContainer() ? container() : host()).Shell(Filled(broken.damage));
    EXPECT_FALSE(Answers(broken.way, std::chrono::milliseconds(250)));
    const json said = Diagnose(broken.way);
    ASSERT_FALSE(said.at("causes").empty());
    const json cause = At(said, "/causes/0");
    EXPECT_THAT(cause.at("what").get<std::string>(), HasSubstr(Filled(broken.says)));
    EXPECT_EQ(FailedStation(said), broken.failed) << said.at("ways");
    // What costs something else than small packets.
    EXPECT_EQ(said.at("cause").is_null(), broken.way == kLarge);
    EXPECT_THAT(cause.at("advice").get<std::string>(), HasSubstr(Filled(broken.advice)));
    if (!broken.advice.empty()) {
      return;
    }
    const std::string kept = Kept();
    PasteFixes(broken.way);
    EXPECT_EQ(Kept(), kept);
    // An IPv6 address that is back is looked for by duplicate address detection first.
    EXPECT_TRUE(Soon([&] { return Answers(broken.way); }));
  }
};

}  // namespace nomad_bridge::test
