// kill -9 in the very first ADD of a machine, which makes the bridge, the table and the folders, at
// every system call.

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

  const json config_ = Publish({Port(8080, 80), Port(8053, 53, "udp")});
  const Victim victim_{.verb = "ADD", .config = config_, .prepare = [this] { MakeBare(); }};
};

TEST_P(KilledFirstAdd, IsRepairedByTheNextAdd) {
  const Snapshot used = TakeBriefSnapshot();
  ServeAll();
  Sweep(victim_, [&] {
    ExpectServes(RunPlugin("ADD", config_), 8080, 8053);
    Detach(config_);
    ExpectNothingSince(used);
  });
}

TEST_P(KilledFirstAdd, IsRemovedByDelAndDoesNotHinderOthers) {
  const Snapshot used = TakeBriefSnapshot();
  const Variables other = As("other", AddContainer("other"));
  Sweep(victim_, [&] {
    Detach(config_);
    EXPECT_FALSE(HasInterface(container(), "eth0"));
    EXPECT_FALSE(HasRecord("alloc-1"));
    EXPECT_TRUE(Leases().empty());
    // What is shared may be half made; the next ADD completes it.
    Attach(config_, other);
    Detach(config_, other);
    ExpectNothingSince(used);
  });
}

INSTANTIATE_TEST_SUITE_P(Slices, KilledFirstAdd, Slices());

}  // namespace
}  // namespace nomad_bridge::test
