// Commands of which the kernel refuses one request, whichever it is: a failed ADD leaves nothing, and
// a DEL that succeeds has removed everything.

#include "tests/plugin/repair_sweep.h"
#include "tests/support/refusal.h"

namespace nomad_bridge::test {
namespace {

class RefusedRequest : public SweepWorld {
 protected:
  // Runs `victim` again and again, refused one request after the other, and shows each outcome to
  // `look`.
  void Refuse(const Victim& victim, const std::function<void(const Outcome&)>& look) {
    for (int nth = 1; !HasFailure(); ++nth) {
      SCOPED_TRACE(Cat("request ", nth));
      victim.prepare();
      const Refusal refusal = RunRefusedAt(PluginCommand(victim.verb, victim.config.dump()), nth);
      if (!refusal.happened) {
        EXPECT_EQ(refusal.outcome.exit_code, 0) << refusal.outcome;
        EXPECT_GT(nth, 1);
        return;
      }
      if (refusal.outcome.exit_code != 0) {
        EXPECT_GT(ErrorCode(refusal.outcome), 0) << refusal.outcome;
      }
      look(refusal.outcome);
    }
  }

  void ExpectAFailedAddLeavesNothing(const json& config) {
    UseOnce(config);
    const Snapshot before = TakeBriefSnapshot();
    Refuse({.verb = "ADD", .config = config}, [&](const Outcome& add) {
      if (add.exit_code == 0) {  // it was not needed
        Detach(config);
      }
      ExpectNothingSince(before);
    });
  }

  const json config_ = Publish({Port(8080, 80), Port(8053, 53, "udp")});
};

TEST_F(RefusedRequest, OfAnAddLeavesNothing) {
  ExpectAFailedAddLeavesNothing(config_);
}

TEST_F(RefusedRequest, OfAnAddWithMoreToDoLeavesNothing) {
  ExpectAFailedAddLeavesNothing(
      Publish({Port(8080, 80)},
              DualStack({{"portIsolation", true},
                         {"ingressPolicy", "isolated"},
                         {"runtimeConfig", {{"mac", "02:42:ac:1a:40:02"}}},
                         {"ipam", {{"routes", {{{"dst", "10.0.0.0/8"}}}}}}})));
}

TEST_F(RefusedRequest, OfADelIsReportedAndTheNextDelFinishesIt) {
  UseOnce(config_);
  const Snapshot before = TakeBriefSnapshot();
  const auto prepare = [this] { Attach(config_); };
  Refuse({.verb = "DEL", .config = config_, .prepare = prepare}, [&](const Outcome& del) {
    if (del.exit_code != 0) {
      Detach(config_);
    }
    ExpectNothingSince(before);
  });
}

}  // namespace
}  // namespace nomad_bridge::test
