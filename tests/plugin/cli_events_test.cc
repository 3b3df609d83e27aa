// What `metrics` counts of what happens: refused ADDs and repairs.
#include "tests/plugin/metrics_world.h"
#include "tests/support/mounted.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kCounts = "/run/nomad-bridge/.counts";

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

TEST_F(Events, CountRefusedAddsByCode) {
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

TEST_F(Events, CountRepairsByArea) {
  const json result = AttachBilling();
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

  host().Must({"nft", "delete", "table", "inet", "nomad-bridge"});
  MustCheck(DualStack(), result, Billing());
  EXPECT_GT(Samples().at(Repaired("table")), samples.at(Repaired("table"))) << "by a CHECK";
}

TEST_F(Events, CountOnceIfTheAddIsKilled) {
  std::uint64_t count = 0;
  KillAtEachPoint(
      [&] {
        return PluginCommand("ADD", Config({{"mtu", 12}}).dump(), Billing());
      },
      [&](const Killing& add) {
        const std::uint64_t counted = RefusedFor(7);
        EXPECT_LE(counted, count + 1);
        EXPECT_GE(counted, add.killed ? count : count + 1);
        count = counted;
      });
  EXPECT_GT(count, 0U) << "no sweep";
}

TEST_F(Events, AreAllCountedIfTheyHappenAtOnce) {
  constexpr int kAtOnce = 20;
  std::vector<Process> adds;
  adds.reserve(kAtOnce);
  for (int i = 0; i < kAtOnce; ++i) {
    adds.push_back(Process::Start(PluginCommand("ADD", Config({{"mtu", 12}}).dump(), Billing())));
  }
  for (Process& add : adds) {
    EXPECT_EQ(add.Wait().exit_code, 1);
  }
  EXPECT_EQ(RefusedFor(7), std::uint64_t{kAtOnce});
}

TEST_F(Events, AreSeenWithoutRoot) {
  RefuseAdd();
  const Outcome outcome = Execute(LineWithoutRoot({"metrics"}));
  EXPECT_EQ(SamplesIn(outcome.out).at(Refused(7)), 1U) << outcome;
}

// A file for each would be without end.
TEST_F(Events, ShareOneKindForCodesOfOtherIpamPlugins) {
  fs::create_directory("/run/ipam");
  const Variables path = {{"CNI_PATH", "/run/ipam"}};
  for (const int code : {110, 123'456}) {
    WriteProgram("/run/ipam/own",
                 Format("#!/bin/sh\necho '{\"code\": {}, \"msg\": \"no\"}'; exit 1\n", Cat(code)));
    EXPECT_EQ(ErrorCode(RunPlugin("ADD", Config({{"ipam", {{"type", "own"}}}}), path)), code);
  }
  EXPECT_EQ(Samples().at(R"(nomad_bridge_refused_adds_total{code="other"})"), 2U);
  EXPECT_THAT(Entries(kCounts), ElementsAre("refused-other"));
}

TEST_F(Events, FailNoCommandIfTheyCannotBeCounted) {
  RefuseAdd();
  host().Must({"mount", "-o", "remount,ro", "/run"});
  RefuseAdd();
  EXPECT_EQ(RefusedFor(7), 1U);
  host().Must({"mount", "-o", "remount,rw", "/run"});
  fs::remove_all(kCounts);
  ReplaceFile(kCounts, "");
  RefuseAdd();
  EXPECT_EQ(RefusedFor(7), 0U);
}

TEST_F(Events, ComeWithTheReleaseNumberAndTheCommit) {
  const std::string printed = RunLine("version").out;
  const auto behind = [&](const std::string& word) {
    const std::size_t begin = printed.find(word) + word.size();
    return printed.substr(begin, printed.find('\n', begin) - begin);
  };
  EXPECT_EQ(Samples().at(Cat("nomad_bridge_build_info{version=\"",
                             behind("plugin v"),
                             "\",commit=\"",
                             behind("\ncommit "),
                             "\"}")),
            1U);
}

}  // namespace
}  // namespace nomad_bridge::test
