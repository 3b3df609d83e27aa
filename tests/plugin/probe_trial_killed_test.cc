// nomad-bridge test leaves nothing behind, however it ends, and others do not notice it.
#include <csignal>

#include "tests/plugin/trial_world.h"

namespace nomad_bridge::test {
namespace {

class TrialKilled : public TrialWorld {
 protected:
  void SetUp() override {
    TrialWorld::SetUp();
    // So that what stays by design is there already.
    Attach(Publish({Port(8090, 80)}, DualStack()));
    Serve(container(), Protocol::kTcp, {"::"}, 80, "hello");
    ASSERT_THAT(RunLine("test"), Exits(0));
    outside().Nft(
        "table inet mine { chain p { type filter hook prerouting priority 0; tcp dport 443 drop; "
        "}; "
        "}");
    before_ = TakeHostSnapshot();
  }

  // One that waits for its target. Returns when it has attached its containers.
  [[nodiscard]] Process StartWaiting() {
    Process trial = Process::Start(Line({"test", "-to", "203.0.113.99:443"}));
    EXPECT_TRUE(Soon([&] { return CountMade() == "2\n"; }));
    return trial;
  }
  [[nodiscard]] std::string CountMade() {
    return host().Must(
        {"sh", "-c", "ls /run/nomad-bridge/nomad | grep -c nomad-bridge-test || true"});
  }

  void ExpectNothingLeft(const std::string& when) {
    Snapshot after;
    EXPECT_TRUE(Soon([&] {
      after = TakeHostSnapshot();
      return after == before_;
    })) << when
        << '\n'
        << Snapshot::Difference(before_, after);
  }

  Snapshot before_;
};

TEST_F(TrialKilled, LeavesNothingIfNobodyKillsIt) {
  const std::string connections = "conntrack -L 2>/dev/null | grep -v ICMP | wc -l";
  ASSERT_EQ(TcpText(outside(), kHostIp4, 8090), "hello");
  std::optional<Connection> open = Connection::Open(outside(), {.to = kHostIp4, .port = 8090});
  ASSERT_TRUE(open);
  const std::string before = host().Must({"sh", "-c", connections});
  ASSERT_THAT(RunLine("test"), Exits(0));
  EXPECT_TRUE(Unchanged(before_, TakeHostSnapshot()));
  EXPECT_EQ(host().Must({"sh", "-c", connections}), before);
  EXPECT_TRUE(open->Echoes("still here"));
  EXPECT_EQ(RunLine("list -json").json.at("attachments").size(), 1U);
}

// Points in time: the sweep has more than a thousand calls.
TEST_F(TrialKilled, LeavesNothingAfterAKill) {
  const int calls = RunKilledAt(Line({"test"}), 0).calls;
  ASSERT_GT(calls, 100);
  constexpr int kPoints = 10;
  for (int i = 0; i < kPoints; ++i) {
    const int nth = 1 + (calls * i + FirstPoint() % calls) / kPoints;
    static_cast<void>(RunKilledAt(Line({"test"}), nth));
    ExpectNothingLeft(Cat("killed at call ", nth, " of ", calls));
  }
}

// The guard is its only child that lives long.
TEST_F(TrialKilled, LeavesNothingAfterAKillOfItsGuard) {
  const int calls = RunChildKilledAt(Line({"test"}), 0).calls;
  ASSERT_GT(calls, 20);
  constexpr int kPoints = 6;
  for (int i = 0; i < kPoints; ++i) {
    const int nth = 1 + calls * i / kPoints;
    const Killing killing = RunChildKilledAt(Line({"test"}), nth);
    ExpectNothingLeft(Cat("guard killed at call ", nth, " of ", calls, '\n', killing.outcome));
  }
}

// Both at once: the next ADD and gc take back what is stale.
TEST_F(TrialKilled, IsTakenBackByGcIfBothAreKilled) {
  Process trial = StartWaiting();
  const std::vector<std::string> children =
      Words(FindFile(Format("/proc/{}/task/{}/children", trial.pid(), trial.pid())).value_or(""));
  ASSERT_FALSE(children.empty());
  // The guard is the eldest child; others end a probe (netlink/probe/cleanup.h). Both are stopped
  // first, so that neither sees the other die.
  const std::vector<pid_t> both = {trial.pid(), std::stoi(children.front())};
  for (const int signal : {SIGSTOP, SIGKILL}) {
    for (const pid_t pid : both) {
      ::kill(pid, signal);
    }
  }
  EXPECT_EQ(trial.Wait().exit_code, 128 + SIGKILL);
  EXPECT_TRUE(Soon([&] { return RunLine("gc").exit_code == 0 && CountMade() == "0\n"; }));
  ExpectNothingLeft("both killed");
}

TEST_F(TrialKilled, EndsByItselfAfterAnInterrupt) {
  Process trial = StartWaiting();
  ::kill(trial.pid(), SIGINT);
  EXPECT_EQ(trial.Wait().exit_code, 128 + SIGINT);
  ExpectNothingLeft("interrupted");
}

}  // namespace
}  // namespace nomad_bridge::test
