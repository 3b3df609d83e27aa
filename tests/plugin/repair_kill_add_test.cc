// kill -9 in an ADD, at every system call: the next ADD, DEL or GC leaves a working attachment, or
// exactly nothing.

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

  const json config_ = Publish({Port(8080, 80), Port(8053, 53, "udp")});
  const Victim victim_{.verb = "ADD", .config = config_};
  Snapshot before_;
};

TEST_P(KilledAdd, IsRepairedByTheNextAdd) {
  ServeAll();
  Sweep(victim_, [&] {
    ExpectServes(RunPlugin("ADD", config_), 8080, 8053);
    Detach(config_);
    ExpectNothingSince(before_);
  });
}

TEST_P(KilledAdd, IsRemovedByDel) {
  Sweep(victim_, [&] {
    Detach(config_);
    ExpectNothingSince(before_);
  });
}

TEST_P(KilledAdd, IsRemovedByGcWithoutIt) {
  Sweep(victim_, [&] {
    MustRun("GC", WithValid({}));
    ExpectNothingSince(before_);
  });
}

// Nomad's agent dies with the plugin, and the allocation before it is back: no DEL ever comes.
TEST_P(KilledAdd, GivesItsAddressBackWhenItsNamespaceIsGoneAndThePoolIsFull) {
  const json config = Publish({Port(8080, 80)}, Config({{"ipam", {{"subnet", "10.9.0.0/30"}}}}));
  const json plain = Config({{"ipam", {{"subnet", "10.9.0.0/30"}}}});
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
    EXPECT_EQ(AddressOf(add.json), "10.9.0.2");
    EXPECT_EQ(Leases(), (std::map<std::string, std::string>{{"10.9.0.2", "other"}}));
    Detach(plain, other);
    if (!killing.killed) {
      break;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Slices, KilledAdd, Slices());

}  // namespace
}  // namespace nomad_bridge::test
