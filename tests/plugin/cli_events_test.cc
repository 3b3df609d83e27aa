// What `metrics` counts of what happens: refused ADDs and repairs, each once, whatever is killed.
#include "tests/plugin/metrics_world.h"
#include "tests/support/mounted.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kEventLog = "/run/nomad-bridge/.event-log";

class Events : public Metrics {
 protected:
  void RefuseAdd() { EXPECT_EQ(ErrorCode(RunPlugin("ADD", Config({{"mtu", 12}}), Billing())), 7); }
  [[nodiscard]] static std::string Refused(int code) {
    return Format(R"(nomad_bridge_refused_adds_total{code="{}"})", Cat(code));
  }
  [[nodiscard]] static std::string Repaired(const std::string& area) {
    return Cat("nomad_bridge_repairs_total{area=\"", area, "\"}");
  }
  [[nodiscard]] std::uint64_t RefusedFor(int code) { return Samples().at(Refused(code)); }
};

TEST_F(Events, AreRefusedAddsByCode) {
  EXPECT_EQ(RefusedFor(7), 0U) << "there from the start";
  RefuseAdd();
  RefuseAdd();
  AttachBilling(Publish({Port(8080, 80)}));
  Node& other = AddContainer("other");
  EXPECT_EQ(ErrorCode(RunPlugin("ADD", Publish({Port(8080, 80)}), As("other", other))), 102);
  EXPECT_NE(RunPlugin("DEL", Config({{"mtu", "x"}}), {{"CNI_CONTAINERID", "/"}}).exit_code, 0);
  EXPECT_NE(RunPlugin("ADD", "{", Billing()).exit_code, 0);

  const Counts samples = Samples();
  EXPECT_EQ(samples.at(Refused(7)), 2U);
  EXPECT_EQ(samples.at(Refused(102)), 1U);
  EXPECT_EQ(samples.at(Refused(6)), 1U) << "stdin is no JSON";
  EXPECT_EQ(samples.at(Refused(4)), 0U) << "that was a DEL";
}

TEST_F(Events, AreRepairsByArea) {
  AttachBilling();
  static_cast<void>(Samples());
  host().Must({"nft", "flush", "ruleset"});
  host().Must({"ip", "link", "set", "nomad", "down"});
  EXPECT_EQ(RunLine("reconcile -dry-run").exit_code, 1);
  EXPECT_EQ(Samples().at(Repaired("table")), 0U) << "nothing was repaired";

  EXPECT_EQ(RunLine("reconcile").exit_code, 0);
  const Counts samples = Samples();
  EXPECT_GE(samples.at(Repaired("bridge")), 1U);
  EXPECT_GE(samples.at(Repaired("table")), 1U);
  EXPECT_GE(samples.at(Repaired("staticRules")), 1U);
  EXPECT_EQ(samples.at(Repaired("lease")), 0U);
}

TEST_F(Events, AreNotWrittenDownIfNobodyReadsThem) {
  RefuseAdd();
  EXPECT_FALSE(fs::exists(kEventLog));
}

TEST_F(Events, CountOnceIfMetricsIsKilled) {
  static_cast<void>(Samples());
  std::uint64_t count = 0;
  bool is_killed = true;
  for (int nth = FirstPoint(); is_killed && !HasFailure(); nth += PointStep()) {
    RefuseAdd();
    is_killed = RunKilledAt(Line({"metrics"}), nth).killed;
    EXPECT_EQ(RefusedFor(7), ++count) << "killed at call " << nth;
  }
  EXPECT_GT(count, 1U) << "no sweep";
}

TEST_F(Events, CountOnceIfTheyHappenMeanwhile) {
  static_cast<void>(Samples());
  std::uint64_t count = 0;
  int calls = FirstPoint();
  for (int nth = calls; nth <= calls && !HasFailure(); nth += PointStep()) {
    calls = RunDisturbedAt(Line({"metrics"}), nth, [&] { RefuseAdd(); }).calls;
    EXPECT_EQ(RefusedFor(7), ++count) << "during call " << nth;
  }
  EXPECT_GT(count, 1U) << "no sweep";
}

TEST_F(Events, AreReadOfALogThatIsTornOrNew) {
  static_cast<void>(Samples());
  RefuseAdd();
  std::ofstream(kEventLog, std::ios::app) << "\nrefused\t7\t";
  RefuseAdd();
  EXPECT_EQ(RefusedFor(7), 2U);
  fs::remove(kEventLog);
  EXPECT_EQ(RefusedFor(7), 2U);
  RefuseAdd();
  EXPECT_EQ(RefusedFor(7), 3U);
}

TEST_F(Events, OccupyLittleWhateverHappens) {
  static_cast<void>(Samples());
  {
    std::ofstream log(kEventLog, std::ios::app);
    for (int code = 0; fs::file_size(kEventLog) < (1U << 20U); ++code) {
      log << "\nrefused\t" << 100 + code % 900 << "\t1\t\n" << std::flush;
    }
  }
  const std::uintmax_t size = fs::file_size(kEventLog);
  RefuseAdd();
  EXPECT_EQ(fs::file_size(kEventLog), size) << "it is full";
  EXPECT_EQ(RefusedFor(7), 0U);
  EXPECT_LT(fs::file_size("/run/nomad-bridge/.event-totals"), 32'768U);
  EXPECT_LT(std::stoi(host().Must({"du", "-sk", "/run/nomad-bridge"})), 64) << "it was read";
  RefuseAdd();
  EXPECT_EQ(RefusedFor(7), 1U);
}

TEST_F(Events, AreNotTheCodesThatAnIpamPluginInvents) {
  static_cast<void>(Samples());
  fs::create_directory("/run/ipam");
  const Variables path = {{"CNI_PATH", "/run/ipam"}};
  for (const int code : {110, 123'456}) {
    WriteProgram("/run/ipam/own",
                 Format("#!/bin/sh\necho '{\"code\": {}, \"msg\": \"no\"}'; exit 1\n", Cat(code)));
    EXPECT_EQ(ErrorCode(RunPlugin("ADD", Config({{"ipam", {{"type", "own"}}}}), path)), code);
  }
  const Counts samples = Samples();
  EXPECT_EQ(samples.at(Refused(110)), 1U);
  EXPECT_FALSE(samples.contains(Refused(123'456)));
}

TEST_F(Events, ArePrintedWhileRunIsReadOnly) {
  static_cast<void>(Samples());
  RefuseAdd();
  host().Must({"mount", "-o", "remount,ro", "/run"});
  const Outcome outcome = RunLine("metrics");
  host().Must({"mount", "-o", "remount,rw", "/run"});
  EXPECT_EQ(SamplesIn(outcome.out).at(Refused(7)), 1U) << outcome;
  EXPECT_THAT(outcome.err, HasSubstr("ignoring: counters of events may fall"));
  EXPECT_EQ(RefusedFor(7), 1U);
}

TEST_F(Events, HaveTheReleaseBesideThem) {
  const std::string banner = RunLine("version").out;
  const std::string version =
      banner.substr(banner.find(" v") + 2, banner.find('\n') - banner.find(" v") - 2);
  EXPECT_EQ(Samples().at(Cat("nomad_bridge_build_info{version=\"", version, "\"}")), 1U);
}

}  // namespace
}  // namespace nomad_bridge::test
