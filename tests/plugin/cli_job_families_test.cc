// What `metrics` says of the jobs that Nomad makes from a periodic or parameterized one: each runs
// once, under a name of its own.
#include "tests/plugin/metrics_world.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kFamily = R"({namespace="default",job="batch",task_group="api"})";

class JobFamilies : public Metrics {
 protected:
  [[nodiscard]] static std::string Child(int i) {
    return Cat("batch/dispatch-170000000", i, "-8f2a7c1d");
  }
  [[nodiscard]] Variables Of(const std::string& job) {
    return As(kAllocation, container(), NomadArgs(job, kAllocation));
  }
  // One allocation of `job` from its ADD to its DEL, with traffic.
  void RunOnce(const std::string& job) {
    Attach(DualStack(), Of(job));
    MakeTraffic();
    Detach(DualStack(), Of(job));
  }
  [[nodiscard]] Counts Family() { return TrafficIn(Output("metrics"), kFamily); }
  // The jobs of which there are counters.
  [[nodiscard]] std::set<std::string> Jobs(const std::string& flags = "") {
    std::set<std::string> jobs;
    for (const auto& [name, value] : Samples(flags)) {
      const std::size_t at = name.find("job=\"");
      if (at != std::string::npos) {
        jobs.insert(name.substr(at + 5, name.find('"', at + 5) - at - 5));
      }
    }
    return jobs;
  }
};

TEST_F(JobFamilies, AreSummedIntoTheirParent) {
  static_cast<void>(Samples());
  for (const std::string& job : {Child(1), Child(2), std::string("batch/periodic-1700000000")}) {
    RunOnce(job);
  }
  EXPECT_THAT(Jobs(), ElementsAre("batch"));
  EXPECT_THAT(Jobs("-per-child"), ElementsAre(Child(1), Child(2), "batch/periodic-1700000000"));
  Counts sum;
  for (const auto& [name, value] : Samples("-per-child")) {
    if (name.starts_with("nomad_bridge_network_")) {
      sum[name.substr(0, name.find('{'))] += value;
    }
  }
  EXPECT_EQ(Family(), sum);
}

// As dispatched jobs come, and go.
TEST_F(JobFamilies, OfAThousandAreSixSeries) {
  static_cast<void>(Samples());
  {
    std::ofstream totals(kTotals, std::ios::app);
    for (int i = 0; i < 1000; ++i) {
      totals << "\n0\t0\t5\t4\t3\t2\t1\t1\t\tdefault\tbatch/dispatch-1700000000-" << 10'000'000 + i
             << "\tapi\t\n";
    }
  }
  const Counts family = Family();
  EXPECT_EQ(family.size(), 6U);
  EXPECT_EQ(family.at("nomad_bridge_network_transmit_bytes_total"), 5000U);
  EXPECT_THAT(Jobs(), ElementsAre("batch"));
  EXPECT_EQ(Jobs("-per-child").size(), 1000U);
}

TEST_F(JobFamilies, KeepWhatForgottenChildrenHadCounted) {
  static_cast<void>(Samples());
  RunOnce(Child(1));
  const Counts first = Family();
  EXPECT_GT(first.at("nomad_bridge_network_receive_bytes_total"), 0U);
  Age(61);
  EXPECT_EQ(Family(), first) << "folded";
  Age(3601);
  EXPECT_EQ(Family(), first) << "the child is forgotten";
  EXPECT_THAT(Jobs("-per-child"), ElementsAre("batch")) << "what its children had";

  RunOnce(Child(2));
  const Counts both = Family();
  for (const auto& [name, value] : first) {
    EXPECT_GE(both.at(name), value) << name;
  }
  EXPECT_GT(both.at("nomad_bridge_network_receive_bytes_total"),
            first.at("nomad_bridge_network_receive_bytes_total"));
  EXPECT_THAT(Jobs("-per-child"), ElementsAre("batch", Child(2)));
  Age(61);
  EXPECT_EQ(Family(), both);
  Age(3601);
  EXPECT_EQ(Family(), both);
  Age(std::chrono::seconds(std::chrono::hours(24)).count() + 1);
  EXPECT_THAT(Family(), IsEmpty()) << "a day without any of them";
}

TEST_F(JobFamilies, LastAsLongAsOneChildRuns) {
  static_cast<void>(Samples());
  RunOnce(Child(1));
  Attach(DualStack(), Of(Child(2)));
  const Counts both = Family();
  for (int day = 0; day < 3; ++day) {
    Age(std::chrono::seconds(std::chrono::hours(25)).count());
    for (const auto& [name, value] : Family()) {
      EXPECT_GE(value, both.at(name)) << name;
    }
  }
  EXPECT_THAT(Jobs("-per-child"), ElementsAre("batch", Child(2)));
  // Without root the links alone are counted.
  EXPECT_THAT(Execute(LineWithoutRoot({"metrics"})), Exits(0, Out(HasSubstr(kFamily))));
}

}  // namespace
}  // namespace nomad_bridge::test
