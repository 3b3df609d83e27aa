// kill -9 in a DEL, and in an ADD that takes over, at every system call.
#include <gtest/gtest.h>

#include "tests/plugin/repair_sweep.h"

namespace nomad_bridge::test {
namespace {

class KilledDel : public KillingWorld {
 protected:
  void SetUp() override {
    UseOnce(config_);
    before_ = TakeBriefSnapshot();
  }

  const std::string config_ = Config({{"tcp", 8080, 80}, {"udp", 8053, 53}});
  const Victim victim_{.verb = "DEL", .config = config_, .prepare = [this] { MustAdd(config_); }};
  Snapshot before_;
};

TEST_P(KilledDel, IsFinishedByTheNextDel) {
  Sweep(victim_, [&] {
    MustDel(config_);
    ExpectNothingSince(before_);
  });
  ExpectNothingSince(before_);
}

TEST_P(KilledDel, IsFinishedByAGcThatDoesNotListIt) {
  Sweep(victim_, [&] {
    const Outcome gc = RunPlugin("GC", GcConfig());
    EXPECT_EQ(gc.exit_code, 0) << gc;
    ExpectNothingSince(before_);
  });
}

TEST_P(KilledDel, IsNoHindranceToTheNextAdd) {
  Serve();
  Sweep(victim_, [&] {
    ExpectServes(RunPlugin("ADD", config_), 8080, 8053);
    MustDel(config_);
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

  static nlohmann::json Asking(const std::string& address) {
    return {{"runtimeConfig", {{"ips", {address}}}}, {"capabilities", {{"ips", true}}}};
  }

  const std::string first_ = Config({{"tcp", 8080, 80}, {"udp", 8053, 53}}, Asking("172.26.64.50"));
  const std::string second_ =
      Config({{"tcp", 9080, 80}, {"udp", 9053, 53}}, Asking("172.26.64.60"));
  const Victim victim_{.verb = "ADD", .config = second_, .prepare = [this] { MustAdd(first_); }};
  Snapshot before_;
};

TEST_P(KilledTakeover, IsRemovedByDel) {
  Sweep(victim_, [&] {
    MustDel(second_);
    ExpectNothingSince(before_);
  });
}

TEST_P(KilledTakeover, IsRemovedByAGcThatDoesNotListIt) {
  Sweep(victim_, [&] {
    const Outcome gc = RunPlugin("GC", GcConfig());
    EXPECT_EQ(gc.exit_code, 0) << gc;
    ExpectNothingSince(before_);
  });
}

TEST_P(KilledTakeover, IsRepairedByTheNextAdd) {
  Serve();
  Sweep(victim_, [&] {
    const Outcome add = RunPlugin("ADD", second_);
    ExpectServes(add, 9080, 9053);
    EXPECT_EQ(AddressOf(add), "172.26.64.60");
    EXPECT_EQ(TcpText(outside(), kHostIp4, 8080), "") << "the old port still leads there";
    MustDel(second_);
    ExpectNothingSince(before_);
  });
}

INSTANTIATE_TEST_SUITE_P(Slices, KilledDel, Slices());
INSTANTIATE_TEST_SUITE_P(Slices, KilledTakeover, Slices());

}  // namespace
}  // namespace nomad_bridge::test
