// kill -9 at every system call of a command, and what becomes of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/plugin/repair_world.h"

namespace nomad_bridge::test {

class KillingWorld : public RepairWorld {
 protected:
  struct Victim {
    std::string verb;
    std::string config;
    std::function<void()> prepare = [] {};  // before every run
    int step = 1;                           // 1: at every call; 3: at every third
  };

  // Runs `victim` again and again, killed at its first, second, ... system call, and calls
  // `recover` each time. Ends with a run that was not killed, and returns its outcome.
  Outcome Sweep(const Victim& victim, const std::function<void()>& recover) {
    constexpr int kFewest = 15;  // any command of ours makes more calls that can be seen
    for (int nth = 1; !HasFailure(); nth += victim.step) {
      victim.prepare();
      Killing killing = RunPluginKilledAt(nth, victim.verb, victim.config);
      if (!killing.killed) {
        EXPECT_EQ(killing.outcome.exit_code, 0) << killing.outcome;
        EXPECT_GT(killing.calls, kFewest);
        return std::move(killing.outcome);
      }
      SCOPED_TRACE(Cat("killed at call ", nth));
      recover();
    }
    return {};
  }

  // What an attachment can leave behind: on the host, in the files, and its interface in the first
  // guest.
  [[nodiscard]] Snapshot TakeBriefSnapshot() {
    Snapshot snapshot;
    snapshot.AddNode(host());
    snapshot.AddFolder("/run/nomad-bridge");
    snapshot.AddFolder(kLeases);
    return snapshot;
  }

  void ExpectNothingSince(const Snapshot& before) {
    EXPECT_TRUE(Unchanged(before, TakeBriefSnapshot()));
    EXPECT_FALSE(HasInterface(guest(), "eth0"));
  }

  // Servers in the first guest, which stay through every ADD and DEL of it.
  void Serve() {
    servers_.push_back(Server::Start(guest(), Protocol::kTcp, "0.0.0.0", 80, "page"));
    servers_.push_back(Server::Start(guest(), Protocol::kUdp, "0.0.0.0", 53, "name"));
  }

  void ExpectServes(const Outcome& add, std::uint16_t tcp, std::uint16_t udp) {
    ASSERT_EQ(add.exit_code, 0) << add;
    EXPECT_EQ(TcpText(outside(), kHostIp4, tcp), "page");
    EXPECT_EQ(UdpText(outside(), kHostIp4, udp), "name");
    EXPECT_EQ(Leases(), (std::map<std::string, std::string>{{AddressOf(add), "alloc-1"}}));
  }

 private:
  std::vector<Server> servers_;
};

}  // namespace nomad_bridge::test
