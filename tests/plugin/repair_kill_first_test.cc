// kill -9 in the very first ADD of a machine, which makes the bridge, the table and the folders, at
// every system call.
#include <gtest/gtest.h>

#include "tests/plugin/repair_sweep.h"

namespace nomad_bridge::test {
namespace {

class KilledFirstAdd : public KillingWorld {
 protected:
  void SetUp() override { UseOnce(config_); }

  // As if no ADD had ever been here.
  void MakeBare() {
    static_cast<void>(host().Run({"ip", "link", "delete", "nomad"}));
    static_cast<void>(container().Run({"ip", "link", "delete", "eth0"}));
    host().Must({"nft", "flush", "ruleset"});
    host().SetSysctl("net/ipv4/ip_forward", "0");
    std::filesystem::remove_all("/run/nomad-bridge");
    std::filesystem::remove_all(kLeases);
  }

  const std::string config_ = Config({{"tcp", 8080, 80}, {"udp", 8053, 53}});
  const Victim victim_{.verb = "ADD", .config = config_, .prepare = [this] { MakeBare(); }};
};

TEST_P(KilledFirstAdd, IsRepairedByTheNextAdd) {
  const Snapshot used = TakeBriefSnapshot();
  Serve();
  Sweep(victim_, [&] {
    ExpectServes(RunPlugin("ADD", config_), 8080, 8053);
    MustDel(config_);
    ExpectNothingSince(used);
  });
}

TEST_P(KilledFirstAdd, IsRemovedByDelAndNoHindranceToOthers) {
  const Snapshot used = TakeBriefSnapshot();
  const Variables other = As("other", AddContainer("other"));
  Sweep(victim_, [&] {
    MustDel(config_);
    EXPECT_FALSE(HasInterface(container(), "eth0"));
    EXPECT_FALSE(HasRecord("alloc-1"));
    EXPECT_TRUE(Leases().empty());
    // What is shared may be half made; whoever comes next completes it.
    MustAdd(config_, other);
    MustDel(config_, other);
    ExpectNothingSince(used);
  });
}

INSTANTIATE_TEST_SUITE_P(Slices, KilledFirstAdd, Slices());

}  // namespace
}  // namespace nomad_bridge::test
