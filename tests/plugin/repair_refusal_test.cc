// Commands of which the kernel refuses one request, whichever it is: a failed ADD leaves nothing, and
// a DEL that says it is done is done.
#include <gtest/gtest.h>

#include "tests/plugin/repair_sweep.h"

namespace nomad_bridge::test {
namespace {

struct Refusal {
  Outcome outcome;
  bool happened = false;  // false: the command made fewer requests
};

// `command` of the plugin, whose N-th netlink request never gets to the kernel.
Refusal RunRefusedAt(int nth, Command command) {
  const std::string log = "/run/requests";
  const std::vector<std::string> strace = {"strace",
                                           "-o",
                                           log,
                                           "-e",
                                           "trace=sendto,sendmsg",
                                           "-e",
                                           Cat("inject=sendto,sendmsg:error=EPERM:when=", nth)};
  command.argv.insert(command.argv.begin(), strace.begin(), strace.end());
  // The leak checker is a tracer itself and would fail under another.
  command.variables["ASAN_OPTIONS"] = "detect_leaks=0";
  Refusal refusal{.outcome = Execute(command)};
  refusal.happened = FindFile(log).value_or("").find("(INJECTED)") != std::string::npos;
  EnsureFileGone(log);
  return refusal;
}

class RefusedRequest : public KillingWorld {
 protected:
  // Runs `victim` again and again, refused one request of this slice after the other, and shows
  // each outcome to `look`.
  void Refuse(const Victim& victim, const std::function<void(const Outcome&)>& look) {
    constexpr int kFewest = 5;  // any ADD or DEL makes more requests
    for (int nth = GetParam(); !HasFailure(); nth += kSlices) {
      SCOPED_TRACE(Cat("request ", nth));
      victim.prepare();
      const Refusal refusal = RunRefusedAt(nth, PluginCommand(victim.verb, victim.config));
      if (!refusal.happened) {
        EXPECT_EQ(refusal.outcome.exit_code, 0) << refusal.outcome;
        EXPECT_GT(nth, kFewest);
        return;
      }
      if (refusal.outcome.exit_code != 0) {
        EXPECT_GT(ErrorCode(refusal.outcome), 0) << refusal.outcome;
      }
      look(refusal.outcome);
    }
  }

  void ExpectAFailedAddLeavesNothing(const std::string& config) {
    UseOnce(config);
    const Snapshot before = TakeBriefSnapshot();
    Refuse({.verb = "ADD", .config = config}, [&](const Outcome& add) {
      if (add.exit_code == 0) {  // it was not needed
        MustDel(config);
      }
      ExpectNothingSince(before);
    });
  }

  const std::string config_ = Config({{"tcp", 8080, 80}, {"udp", 8053, 53}});
};

TEST_P(RefusedRequest, OfAnAddLeavesNothing) {
  ExpectAFailedAddLeavesNothing(config_);
}

TEST_P(RefusedRequest, OfAnAddWithALockedPortLeavesNothing) {
  ExpectAFailedAddLeavesNothing(Config({}, {{"macspoofchk", true}, {"ingressPolicy", "isolated"}}));
}

TEST_P(RefusedRequest, OfADelIsSaidAndMadeUpForByTheNext) {
  UseOnce(config_);
  const Snapshot before = TakeBriefSnapshot();
  const auto prepare = [this] { MustAdd(config_); };
  Refuse({.verb = "DEL", .config = config_, .prepare = prepare}, [&](const Outcome& del) {
    if (del.exit_code != 0) {
      MustDel(config_);
    }
    ExpectNothingSince(before);
  });
}

INSTANTIATE_TEST_SUITE_P(Slices, RefusedRequest, Slices());

}  // namespace
}  // namespace nomad_bridge::test
