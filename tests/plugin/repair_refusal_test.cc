// Commands of which the kernel refuses one request, or of which one answer is lost, whichever it
// is: a failed ADD leaves nothing, and a DEL that succeeds has removed everything.

#include <sys/syscall.h>

#include "tests/plugin/repair_sweep.h"
#include "tests/support/refusal.h"

namespace nomad_bridge::test {
namespace {

class RefusedRequest : public SweepWorld {
 protected:
  using Run = std::function<Refusal(Command, int)>;

  // Runs `victim` again and again by `run`, with one call after the other, and shows each outcome
  // to `look`. Frequent calls are swept; of rare ones each is refused.
  void Refuse(const Victim& victim,
              const std::function<void(const Outcome&)>& look,
              const Run& run) {
    const int step = is_frequent_ ? PointStep() : 1;
    for (int nth = is_frequent_ ? FirstPoint() : 1; !HasFailure(); nth += step) {
      SCOPED_TRACE(Cat("call ", nth));
      victim.prepare();
      const Refusal refusal = run(PluginCommand(victim.verb, victim.config.dump()), nth);
      if (!refusal.happened) {
        EXPECT_TRUE(nth > step || idle_verbs_.contains(victim.verb))
            << "it makes too few such calls";
        EXPECT_EQ(refusal.outcome.exit_code, 0) << refusal.outcome;
        return;
      }
      if (refusal.IsFailure()) {
        EXPECT_GT(ErrorCode(refusal.outcome), 0) << refusal.outcome;
      }
      look(refusal.outcome);
    }
  }

  void ExpectAFailedAddLeavesNothing(const json& config, const Run& run = RunRefusedAt) {
    UseOnce(config);
    const Snapshot before = TakeBriefSnapshot();
    const auto look = [&](const Outcome& add) {
      if (add.exit_code == 0) {  // it was not needed
        Detach(config);
      }
      ExpectNothingSince(before);
    };
    Refuse({.verb = "ADD", .config = config}, look, run);
  }

  void ExpectTheNextDelFinishes(const json& config, const Run& run = RunRefusedAt) {
    UseOnce(config);
    const Snapshot before = TakeBriefSnapshot();
    const auto look = [&](const Outcome& del) {
      if (del.exit_code != 0) {
        Detach(config);
      }
      ExpectNothingSince(before);
    };
    Refuse({.verb = "DEL", .config = config, .prepare = [&] { AttachForRun(config); }}, look, run);
  }

  const json config_ = Publish({Port(8080, 80), Port(8053, 53, "udp")});
  bool is_frequent_ = true;           // more than ten such calls in each command
  std::set<std::string> idle_verbs_;  // which make no such call
};

TEST_F(RefusedRequest, AddLeavesNothing) {
  ExpectAFailedAddLeavesNothing(config_);
}

TEST_F(RefusedRequest, AddWithMoreToDoLeavesNothing) {
  ExpectAFailedAddLeavesNothing(Publish(
      {Port(8080, 80)},
      DualStack({{"portIsolation", true},
                 {"ingressPolicy", "isolated"},
                 // Announced: the LAN may know the address with another MAC.
                 {"runtimeConfig", {{"mac", "02:42:ac:1a:40:02"}, {"ips", {"172.26.64.9"}}}},
                 {"ipam", {{"routes", {{{"dst", "10.0.0.0/8"}}}}}}})));
}

TEST_F(RefusedRequest, DelReportsItAndTheNextDelFinishes) {
  ExpectTheNextDelFinishes(config_);
}

// ---- answers that are lost

struct Loss : Named {
  int error;
};

class LostAnswer : public RefusedRequest, public ::testing::WithParamInterface<Loss> {
 protected:
  const Run run_ = [](Command command, int nth) {
    return RunUnansweredAt(std::move(command), nth, GetParam().error);
  };
};

TEST_P(LostAnswer, AddLeavesNothing) {
  ExpectAFailedAddLeavesNothing(Publish({Port(8080, 80)}, DualStack()), run_);
}

INSTANTIATE_TEST_SUITE_P(Errors,
                         LostAnswer,
                         ::testing::Values(Loss{"ENOMEM", ENOMEM}, Loss{"EAGAIN", EAGAIN}),
                         kNameOf);

// As when the wait for it has ended. With ENOMEM: FailingCall.
TEST_F(RefusedRequest, DelReportsAMissingAnswerAndTheNextDelFinishes) {
  ExpectTheNextDelFinishes(config_, [](Command command, int nth) {
    return RunUnansweredAt(std::move(command), nth, EAGAIN);
  });
}

// ---- other calls that fail

struct Failure : Named {
  int call;
  int error;
  bool is_frequent = false;
  std::set<std::string> idle_verbs = {};
};

class FailingCall : public RefusedRequest, public ::testing::WithParamInterface<Failure> {
 protected:
  FailingCall() {
    is_frequent_ = GetParam().is_frequent;
    idle_verbs_ = GetParam().idle_verbs;
  }

  const Run run_ = [](Command command, int nth) {
    return RunFailingAt(std::move(command), nth, GetParam().call, GetParam().error);
  };
};

TEST_P(FailingCall, AddLeavesNothing) {
  ExpectAFailedAddLeavesNothing(config_, run_);
}

TEST_P(FailingCall, DelReportsItAndTheNextDelFinishes) {
  ExpectTheNextDelFinishes(config_, run_);
}

class FailingCallOfGcOrCheck : public FailingCall {};

TEST_P(FailingCallOfGcOrCheck, GcReportsItAndTheNextGcFinishes) {
  UseOnce(config_);
  const Snapshot before = TakeBriefSnapshot();
  const json config = WithValid({}, config_);
  const auto look = [&](const Outcome& gc) {
    if (gc.exit_code != 0) {
      MustRun("GC", config);
    }
    ExpectNothingSince(before);
  };
  Refuse({.verb = "GC", .config = config, .prepare = [&] { AttachForRun(config_); }}, look, run_);
}

// What is intact still works, and what is not is said.
TEST_P(FailingCallOfGcOrCheck, CheckChangesNothing) {
  const json config = WithResult(config_, Attach(config_));
  ForgetAge("alloc-1");
  const Snapshot before = TakeSnapshot();
  const auto look = [&](const Outcome&) { EXPECT_TRUE(Unchanged(before, TakeSnapshot())); };
  Refuse({.verb = "CHECK", .config = config}, look, run_);
}

// Those that a busy node, or a full disk, lets fail.
const auto kLikely = ::testing::Values(Failure{"openat", SYS_openat, ENOMEM, true},
                                       Failure{"socket", SYS_socket, ENOBUFS},
                                       Failure{"sendto", SYS_sendto, ENOBUFS, true},
                                       Failure{"recvmsg", SYS_recvmsg, ENOMEM, true},
                                       Failure{"write", SYS_write, ENOSPC, false, {"CHECK"}},
                                       Failure{"rename", kRenameCall, ENOSPC, false, {"CHECK"}});
const auto kOthers =
    ::testing::Values(Failure{"flock", SYS_flock, EINTR, false, {"CHECK"}},
                      Failure{"fcntl", SYS_fcntl, EINTR},
                      Failure{"linkat", SYS_linkat, ENOSPC, false, {"DEL", "GC", "CHECK"}},
                      Failure{"unlink", kUnlinkCall, EBUSY, false, {"ADD", "CHECK"}});

INSTANTIATE_TEST_SUITE_P(Of, FailingCall, kLikely, kNameOf);
INSTANTIATE_TEST_SUITE_P(ThoroughOf, FailingCall, kOthers, kNameOf);
INSTANTIATE_TEST_SUITE_P(ThoroughLikely, FailingCallOfGcOrCheck, kLikely, kNameOf);
INSTANTIATE_TEST_SUITE_P(ThoroughOthers, FailingCallOfGcOrCheck, kOthers, kNameOf);

}  // namespace
}  // namespace nomad_bridge::test
