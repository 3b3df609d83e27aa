// kill -9 in a DEL, and in an ADD that takes over, at every system call.

#include "tests/plugin/repair_sweep.h"

namespace nomad_bridge::test {
namespace {

class KilledDel : public KillingWorld {
 protected:
  void SetUp() override {
    UseOnce(config_);
    before_ = TakeBriefSnapshot();
  }

  const json config_ = Publish({Port(8080, 80), Port(8053, 53, "udp")});
  const Victim victim_{.verb = "DEL", .config = config_, .prepare = [this] { Attach(config_); }};
  Snapshot before_;
};

TEST_P(KilledDel, IsFinishedByTheNextDel) {
  Sweep(victim_, [&] {
    Detach(config_);
    ExpectNothingSince(before_);
  });
  ExpectNothingSince(before_);
}

TEST_P(KilledDel, IsFinishedByGcWithoutIt) {
  Sweep(victim_, [&] {
    MustRun("GC", WithValid({}));
    ExpectNothingSince(before_);
  });
}

TEST_P(KilledDel, DoesNotHinderTheNextAdd) {
  ServeAll();
  Sweep(victim_, [&] {
    ExpectServes(RunPlugin("ADD", config_), 8080, 8053);
    Detach(config_);
    ExpectNothingSince(before_);
  });
}

// Another address and other ports than the ADD before it, so that both may be left over.
class KilledTakeover : public KillingWorld {
 protected:
  void SetUp() override {
    UseOnce(first_);
    before_ = TakeBriefSnapshot();
  }

  static json Asking(const std::string& address) {
    return Config({{"runtimeConfig", {{"ips", {address}}}}});
  }

  const json first_ = Publish({Port(8080, 80), Port(8053, 53, "udp")}, Asking("172.26.64.50"));
  const json second_ = Publish({Port(9080, 80), Port(9053, 53, "udp")}, Asking("172.26.64.60"));
  const Victim victim_{.verb = "ADD", .config = second_, .prepare = [this] { Attach(first_); }};
  Snapshot before_;
};

TEST_P(KilledTakeover, IsRemovedByDel) {
  Sweep(victim_, [&] {
    Detach(second_);
    ExpectNothingSince(before_);
  });
}

TEST_P(KilledTakeover, IsRemovedByGcWithoutIt) {
  Sweep(victim_, [&] {
    MustRun("GC", WithValid({}));
    ExpectNothingSince(before_);
  });
}

TEST_P(KilledTakeover, IsRepairedByTheNextAdd) {
  ServeAll();
  Sweep(victim_, [&] {
    const Outcome add = RunPlugin("ADD", second_);
    ExpectServes(add, 9080, 9053);
    EXPECT_EQ(AddressOf(add.json), "172.26.64.60");
    EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "") << "the old port still leads there";
    Detach(second_);
    ExpectNothingSince(before_);
  });
}

INSTANTIATE_TEST_SUITE_P(Slices, KilledDel, Slices());
INSTANTIATE_TEST_SUITE_P(Slices, KilledTakeover, Slices());

}  // namespace
}  // namespace nomad_bridge::test
