// kill -9 in an ADD, at every system call: the next ADD, DEL or GC leaves a working attachment, or
// exactly nothing.
#include <gtest/gtest.h>

#include "tests/plugin/repair_sweep.h"

namespace nomad_bridge::test {
namespace {

// An ADD with a port of each kind, on a machine and in a container that have seen one before.
class KilledAdd : public KillingWorld {
 protected:
  void SetUp() override {
    UseOnce(config_);
    before_ = TakeBriefSnapshot();
  }

  const std::string config_ = Config({{"tcp", 8080, 80}, {"udp", 8053, 53}});
  const Victim victim_{.verb = "ADD", .config = config_};
  Snapshot before_;
};

TEST_P(KilledAdd, IsRepairedByTheNextAdd) {
  Serve();
  Sweep(victim_, [&] {
    ExpectServes(RunPlugin("ADD", config_), 8080, 8053);
    MustDel(config_);
    ExpectNothingSince(before_);
  });
}

TEST_P(KilledAdd, IsRemovedByDel) {
  Sweep(victim_, [&] {
    MustDel(config_);
    ExpectNothingSince(before_);
  });
}

TEST_P(KilledAdd, IsRemovedByAGcThatDoesNotListIt) {
  Sweep(victim_, [&] {
    const Outcome gc = RunPlugin("GC", GcConfig());
    EXPECT_EQ(gc.exit_code, 0) << gc;
    ExpectNothingSince(before_);
  });
}

// Nomad's agent dies with the plugin, and the allocation before it is back: no DEL ever comes.
TEST_P(KilledAdd, GivesItsAddressBackWhenItsNamespaceHasDiedAndThePoolIsFull) {
  const std::string config = Config({{"tcp", 8080, 80}}, {{"ipam", {{"subnet", "10.9.0.0/30"}}}});
  const std::string plain = Config({}, {{"ipam", {{"subnet", "10.9.0.0/30"}}}});
  const Variables other = As("other", AddContainer("other"));
  int containers = 0;
  for (int nth = GetParam(); !HasFailure(); nth += kSlices) {
    Node& doomed = AddContainer(Cat("doomed", ++containers));
    const Killing killing = RunPluginKilledAt(nth, "ADD", config, As("doomed", doomed));
    SCOPED_TRACE(Cat("killed at call ", nth));
    KillContainer(doomed);
    Outcome add;
    // The kernel takes its time to end a namespace; until then its attachment lives.
    EXPECT_TRUE(Soon([&] { return (add = RunPlugin("ADD", plain, other)).exit_code == 0; })) << add;
    EXPECT_EQ(AddressOf(add), "10.9.0.2");
    EXPECT_EQ(Leases(), (std::map<std::string, std::string>{{"10.9.0.2", "other"}}));
    MustDel(plain, other);
    if (!killing.killed) {
      break;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Slices, KilledAdd, Slices());

}  // namespace
}  // namespace nomad_bridge::test
