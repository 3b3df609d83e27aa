// kill -9 in an ADD, at every system call: the next ADD, DEL or GC leaves a working attachment, or exactly nothing.
#include <gtest/gtest.h>

#include "tests/plugin/repair_world.h"

namespace nomad_bridge::test {
namespace {

const std::vector<PublishedPort> kPorts = {{"tcp", 8080, 80}, {"udp", 8053, 53}};

class KilledAdd : public RepairWorld {
 protected:
  // A guest that has seen an ADD already, on a machine that has, and servers behind the published ports.
  void SetUp() override {
    UseOnce(config_);
    before_ = TakeSnapshot();
    servers_.push_back(Server::Start(guest(), Protocol::kTcp, "0.0.0.0", 80, "page"));
    servers_.push_back(Server::Start(guest(), Protocol::kUdp, "0.0.0.0", 53, "name"));
  }

  // Calls `recover` after a kill at the first, second, ... system call, until an ADD ends before it could be killed.
  void Sweep(const std::function<void(int)>& recover) {
    for (int nth = 1; !HasFailure(); ++nth) {
      const Killing killing = RunPluginKilledAt(nth, "ADD", config_);
      if (!killing.killed) {
        EXPECT_EQ(killing.outcome.exit_code, 0) << killing.outcome;
        EXPECT_GT(nth, 20) << "too few system calls for an ADD: they were not counted";
        std::cout << "calls " << nth << std::endl;
        MustDel(config_);
        return;
      }
      recover(nth);
    }
  }

  void ExpectWorks(const Outcome& add) {
    ASSERT_EQ(add.exit_code, 0) << add;
    EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "page");
    EXPECT_EQ(UdpText(outside(), kHostIp4, 8053), "name");
    EXPECT_TRUE(Ping(guest(), kOutsideIp4));
  }

  const std::string config_ = Config(kPorts);
  Snapshot before_;
  std::vector<Server> servers_;
};

TEST_F(KilledAdd, IsRepairedByTheNextAdd) {
  Sweep([&](int nth) {
    SCOPED_TRACE(Cat("killed at call ", nth));
    const Outcome add = RunPlugin("ADD", config_);
    ExpectWorks(add);
    EXPECT_EQ(Leases().size(), 1U);
    MustDel(config_);
    EXPECT_TRUE(Unchanged(before_, TakeSnapshot()));
  });
}

TEST_F(KilledAdd, IsRemovedByDel) {
  Sweep([&](int nth) {
    SCOPED_TRACE(Cat("killed at call ", nth));
    MustDel(config_);
    EXPECT_TRUE(Unchanged(before_, TakeSnapshot()));
  });
}

TEST_F(KilledAdd, IsRemovedByAGcThatDoesNotListIt) {
  Sweep([&](int nth) {
    SCOPED_TRACE(Cat("killed at call ", nth));
    const Outcome gc = RunPlugin("GC", GcConfig());
    EXPECT_EQ(gc.exit_code, 0) << gc;
    EXPECT_TRUE(Unchanged(before_, TakeSnapshot()));
  });
}

}  // namespace
}  // namespace nomad_bridge::test
