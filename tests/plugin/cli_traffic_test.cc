// What `metrics` says of links that are gone: each count once, and never less than before, whatever
// happens in between.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>

#include "tests/plugin/metrics_world.h"
#include "tests/support/rules_lock.h"

namespace nomad_bridge::test {
namespace {

constexpr const char* kState = "/run/nomad-bridge";
constexpr const char* kLog = "/run/nomad-bridge/.traffic-log";

class TrafficTotals : public Metrics {
 protected:
  // A fresh attachment with traffic, which then has none any more: what its link has counted by
  // then, as `ip` says, is expected from now on.
  void AttachCounted(Node& node) {
    const Variables variables = As(kAllocation, node, NomadArgs("billing", kAllocation));
    const std::string veth = HostVethOf(Attach(DualStack(), variables));
    ASSERT_TRUE(Ping(node, kBridgeIp4));
    node.Must({"ip", "link", "set", "eth0", "down"});
    const json stats = host().Json({"ip", "-s", "-j", "link", "show", veth}).at(0).at("stats64");
    for (const auto& [name, side] : {std::pair{"receive", "tx"}, std::pair{"transmit", "rx"}}) {
      for (const char* const what : {"bytes", "packets", "dropped"}) {
        expected_[Cat("nomad_bridge_network_", name, '_', what, "_total")] +=
            stats.at(side).at(what).get<std::uint64_t>();
      }
    }
  }
  void AttachCounted() { AttachCounted(container()); }
  void ExpectExact(const std::string& when) { EXPECT_EQ(Traffic(), expected_) << when; }
  [[nodiscard]] const Counts& expected() const { return expected_; }

  [[nodiscard]] static std::int64_t KnownLines() {
    return std::ranges::count_if(Lines(FindFile(kTotals).value()),
                                 [](const std::string& line) { return !line.empty(); });
  }
  // What the state occupies, in KiB.
  [[nodiscard]] int Occupied() { return std::stoi(host().Must({"du", "-sk", kState})); }

 private:
  Counts expected_;
};

// In slices, which run side by side.
class TrafficTotalsAtEachCall : public TrafficTotals {
 protected:
  void SetUp() override { static_cast<void>(Output("metrics")); }
  // While a command that is held has the lock of the rules or the leases, others would only wait
  // for it. It neither deletes links nor counts by then.
  [[nodiscard]] static bool IsAnythingLocked() {
    const UniqueFd rules = TryRulesLock();
    const UniqueFd leases(::open(Cat(kLeases, "/lock").c_str(), O_RDWR | O_CLOEXEC));
    return !rules || ::flock(leases.get(), LOCK_EX | LOCK_NB) != 0;
  }
  // `command` is held at its `nth` call while `act` is done.
  [[nodiscard]] static Killing RunHeldAt(int nth,
                                         const Command& command,
                                         const std::function<void()>& act) {
    return RunDisturbedAt(command, nth, [&] {
      if (!IsAnythingLocked()) {
        act();
      }
    });
  }
  // Until `step` says that its command has fewer than that many calls.
  void Sweep(const std::function<bool(int nth)>& step) {
    int nth = FirstPoint();
    for (bool goes_on = true; goes_on && !HasFailure(); nth += PointStep()) {
      SCOPED_TRACE(Cat("call ", nth));
      goes_on = step(nth);
    }
    EXPECT_GT(nth, 10) << "no sweep";
  }
};

TEST_F(TrafficTotalsAtEachCall, AreExactIfADelIsKilled) {
  Sweep([&](int nth) {
    AttachCounted();
    if (nth % 2 == 0) {
      ExpectExact("before: known of the link, and not only of its deletion");
    }
    const Killing killing = RunPluginKilledAt(nth, "DEL", DualStack(), Billing());
    ExpectExact("after the kill");
    DetachBilling();
    ExpectExact("after another DEL");
    return killing.killed;
  });
}

TEST_F(TrafficTotalsAtEachCall, AreExactDuringADel) {
  Sweep([&](int nth) {
    AttachCounted();
    const Command del = PluginCommand("DEL", DualStack().dump(), Billing());
    const Killing held = RunHeldAt(nth, del, [&] { ExpectExact("meanwhile"); });
    ExpectExact("afterwards");
    return held.calls >= nth;
  });
}

// As if with its namespace, which the DEL itself keeps alive.
TEST_F(TrafficTotalsAtEachCall, AreExactIfTheLinkGoesDuringADel) {
  Sweep([&](int nth) {
    AttachCounted();
    ExpectExact("before");
    const Command del = PluginCommand("DEL", DualStack().dump(), Billing());
    const Killing held = RunHeldAt(nth, del, [&] {
      for (const json& port : PortsOf("nomad")) {
        // The child of the DEL may be faster.
        static_cast<void>(
            host().Run({"ip", "link", "delete", port.at("ifname").get<std::string>()}));
      }
      ExpectExact("meanwhile");
    });
    ExpectExact("afterwards");
    return held.calls >= nth;
  });
}

TEST_F(TrafficTotalsAtEachCall, AreExactIfMetricsIsKilled) {
  Sweep([&](int nth) {
    AttachCounted();
    if (nth % 2 == 0) {
      ExpectExact("before");
    }
    DetachBilling();
    const Killing killing = RunKilledAt(Line({"metrics"}), nth);
    ExpectExact("after the kill");
    return killing.killed;
  });
}

TEST_F(TrafficTotalsAtEachCall, AreExactDuringMetrics) {
  Sweep([&](int nth) {
    AttachCounted();
    const Killing held = RunHeldAt(nth, Line({"metrics"}), [&] { DetachBilling(); });
    EXPECT_EQ(TrafficIn(held.outcome.out), expected()) << held.outcome;
    DetachBilling();
    ExpectExact("afterwards");
    return held.calls >= nth;
  });
}

// Of whatever replaces or deletes a link.
TEST_F(TrafficTotals, AreExactAfterEveryWayOfDeletion) {
  AttachCounted();
  ExpectExact("live");
  AttachCounted();
  ExpectExact("after an ADD that replaced the pair");
  fs::remove(RecordOf(kAllocation));
  DetachBilling();
  ExpectExact("after a DEL without a record");
  AttachCounted();
  MustRun("GC", WithValid({}, DualStack()), kNoContainer);
  ExpectExact("after GC");
  Node& mortal = AddContainer("mortal");
  AttachCounted(mortal);
  ExpectExact("live again");
  KillContainer(mortal);
  ExpectExact("after its namespace took the link along");
}

TEST_F(TrafficTotals, DoNotDependOnWhatIsFolded) {
  AttachCounted();
  ExpectExact("live");
  DetachBilling();
  ExpectExact("deleted");
  EXPECT_EQ(KnownLines(), 2) << "the workload and the link";
  Age(61);
  ExpectExact("folded");
  EXPECT_EQ(KnownLines(), 1);
  Age(std::chrono::seconds(std::chrono::hours(23)).count());
  ExpectExact("of yesterday");
  Age(std::chrono::seconds(std::chrono::hours(1)).count() + 1);
  EXPECT_THAT(Traffic(), IsEmpty()) << "forgotten";
  EXPECT_EQ(KnownLines(), 0);
}

TEST_F(TrafficTotals, StayAsTheyAreIfTheClockIsSetBack) {
  AttachCounted();
  ExpectExact("live");
  DetachBilling();
  ExpectExact("deleted");
  Age(-std::uint64_t{3600});
  ExpectExact("an hour before");
  Age(61);
  ExpectExact("folded");
  EXPECT_EQ(KnownLines(), 1);
}

TEST_F(TrafficTotals, BearALineThatIsTorn) {
  static_cast<void>(Traffic());
  std::ofstream(kLog, std::ios::app) << "\n0\t7\t100\t100";
  AttachCounted();
  ExpectExact("live");
  DetachBilling();
  ExpectExact("deleted");
}

TEST_F(TrafficTotals, AreNotWrittenDownIfNobodyReadsThem) {
  AttachBilling();
  MakeTraffic();
  DetachBilling();
  EXPECT_THAT(Entries(kState), Not(Contains(StartsWith(".traffic"))));
}

// 100,000 jobs would take a quarter of an hour: most of their lines are written by us.
TEST_F(TrafficTotals, OccupyAtMostOneMebibyteUntilTheyAreRead) {
  AttachCounted();
  ExpectExact("live");
  DetachBilling();
  const std::string line = FindFile(kLog).value();
  const std::size_t tail = line.rfind('\t', line.find("default"));
  ASSERT_NE(tail, std::string::npos) << line;
  constexpr std::size_t kNearly = (1 << 20) - (1 << 16) - 1024;
  {
    std::ofstream log(kLog, std::ios::app);
    for (std::size_t i = 0; fs::file_size(kLog) + line.size() < kNearly; ++i) {
      log << line.substr(0, tail) << "\tdefault\tjob-" << i << "\tapi\t\n" << std::flush;
    }
  }
  std::uintmax_t size = 0;
  for (int i = 0; i < 30; ++i) {
    size = fs::file_size(kLog);
    AttachBilling();
    EXPECT_EQ(MustRun("DEL", DualStack(), Billing()).err, "");
  }
  EXPECT_EQ(fs::file_size(kLog), size) << "has not reached its limit";
  EXPECT_LE(Occupied(), 1024);

  Counts before = Traffic();
  EXPECT_LE(fs::file_size(kLog), size);
  AttachCounted();
  DetachBilling();
  EXPECT_GT(fs::file_size(kLog), size) << "appended again";
  for (const auto& [name, value] : Traffic()) {
    EXPECT_GE(value, before[name]) << name;
  }
}

TEST_F(TrafficTotals, ArePrintedWhileRunIsReadOnly) {
  AttachCounted();
  ExpectExact("live");
  DetachBilling();
  AttachCounted();
  host().Must({"mount", "-o", "remount,ro", "/run"});
  const Outcome outcome = RunLine("metrics");
  host().Must({"mount", "-o", "remount,rw", "/run"});
  EXPECT_THAT(outcome, Exits(0, Err(HasSubstr("(EROFS), ignoring: counters may fall"))));
  EXPECT_EQ(TrafficIn(outcome.out), expected());
  ExpectExact("writable again");
}

TEST_F(TrafficTotals, ArePrintedWhileRunIsFull) {
  AttachCounted();
  DetachBilling();
  AttachCounted();
  // Never asked before, so nothing is known of the first link.
  const Counts live = Traffic();
  host().Must({"mount", "-o", "remount,size=2M", "/run"});
  EXPECT_NE(host().Run({"dd", "if=/dev/zero", "of=/run/filling", "bs=4k"}).exit_code, 0);
  const Outcome outcome = RunLine("metrics");
  EXPECT_THAT(outcome, Exits(0, Err(HasSubstr("(ENOSPC), ignoring: counters may fall"))));
  EXPECT_EQ(TrafficIn(outcome.out), live);
  EXPECT_THAT(MustRun("DEL", DualStack(), Billing()),
              Err(HasSubstr("ignoring: the metrics may lack what 'veth")));
  fs::remove("/run/filling");
  EXPECT_EQ(Traffic(), live) << "it was seen before";
}

TEST_F(TrafficTotals, NeedFewDescriptorsForManyJobs) {
  static_cast<void>(Traffic());
  for (int i = 0; i < 20; ++i) {
    const std::string id = Cat("other-", i);
    const Variables variables = As(id, container(), NomadArgs(Cat("job-", i), id));
    Attach(DualStack(), variables);
    Detach(DualStack(), variables);
  }
  AttachCounted();
  Command command = Line({"metrics"});
  command.in_child = [] {
    constexpr rlimit kFew{.rlim_cur = 16, .rlim_max = 16};
    static_cast<void>(::setrlimit(RLIMIT_NOFILE, &kFew));
  };
  const Outcome outcome = Execute(command);
  EXPECT_THAT(outcome, Exits(0, Err(""), Out(HasSubstr(R"(job="job-19")"))));
  EXPECT_EQ(TrafficIn(outcome.out), expected());
}

TEST_F(TrafficTotals, ArePrintedIfTheirFilesCannotBeUsed) {
  AttachCounted();
  fs::create_directories(kLog);
  const Outcome outcome = RunLine("metrics");
  EXPECT_THAT(outcome, Exits(0, Err(HasSubstr("ignoring: counters may fall"))));
  EXPECT_EQ(TrafficIn(outcome.out), expected());
  EXPECT_THAT(MustRun("DEL", DualStack(), Billing()).err, HasSubstr("the metrics may lack"));
  EXPECT_FALSE(HasRecord(kAllocation));
}

}  // namespace
}  // namespace nomad_bridge::test
