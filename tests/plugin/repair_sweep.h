// A command that is killed, or refused a request, at every point in turn.
#pragma once

#include "tests/support/world.h"

namespace nomad_bridge::test {

// A sweep is cut into three cases, so that none takes long: the first kills at calls 1, 4, 7 ...
constexpr int kSlices = 3;

inline auto Slices() {
  return ::testing::Range(1, kSlices + 1);
}

class SweepWorld : public World {
 protected:
  struct Victim {
    std::string verb;
    json config;
    std::function<void()> prepare = [] {};  // before every run
  };

  // What an attachment can leave behind: on the host, in the files, and its interface in the first
  // container.
  [[nodiscard]] Snapshot TakeBriefSnapshot() {
    Snapshot snapshot;
    snapshot.AddNode(host());
    snapshot.AddFolder("/run/nomad-bridge");
    snapshot.AddFolder(kLeases);
    return snapshot;
  }

  void ExpectNothingSince(const Snapshot& before) {
    EXPECT_TRUE(Unchanged(before, TakeBriefSnapshot()));
    EXPECT_FALSE(HasInterface(container(), "eth0"));
  }
};

// By kill -9 at every system call.
class KillingWorld : public SweepWorld, public ::testing::WithParamInterface<int> {
 protected:
  // Runs `victim` again and again, killed at one system call of this slice after the other, and
  // calls `recover` each time. Ends with a run that was not killed.
  void Sweep(const Victim& victim, const std::function<void()>& recover) {
    constexpr int kFewest = 15;  // any command of ours makes more calls that can be seen
    for (int nth = GetParam(); !HasFailure(); nth += kSlices) {
      victim.prepare();
      const Killing killing = RunPluginKilledAt(nth, victim.verb, victim.config);
      if (!killing.killed) {
        EXPECT_EQ(killing.outcome.exit_code, 0) << killing.outcome;
        EXPECT_GT(killing.calls, kFewest);
        return;
      }
      SCOPED_TRACE(Cat("killed at call ", nth));
      recover();
    }
  }

  // Servers in the first container, which stay through every ADD and DEL of it.
  void ServeAll() {
    Serve(container(), Protocol::kTcp, {"0.0.0.0"}, 80, "page");
    Serve(container(), Protocol::kUdp, {"0.0.0.0"}, 53, "name");
  }

  void ExpectServes(const Outcome& add, std::uint16_t tcp, std::uint16_t udp) {
    ASSERT_EQ(add.exit_code, 0) << add;
    EXPECT_EQ(TcpText(outside(), kHostIp4, tcp), "page");
    EXPECT_EQ(UdpText(outside(), kHostIp4, udp), "name");
    EXPECT_EQ(Leases(), (std::map<std::string, std::string>{{AddressOf(add.json), "alloc-1"}}));
  }
};

}  // namespace nomad_bridge::test
