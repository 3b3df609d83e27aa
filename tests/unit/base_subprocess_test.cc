// The limits of a subprocess. What else its header promises is tested through cni_delegate_test.cc.
#include <signal.h>
#include <unistd.h>

#include "base/subprocess.h"
#include "tests/support/soon.h"
#include "tests/support/test.h"

namespace nomad_bridge {
namespace {

Subprocess Script(const std::string& script) {
  return {.path = "/bin/sh",
          .arguments = {"-c", script},
          .environment = {"PATH=/usr/bin:/bin"},
          .timeout = std::chrono::seconds(60)};
}

TEST(Subprocess, MayPrintExactlyTheLimitAndNotOneByteMore) {
  Subprocess program = Script("head -c 100000 /dev/zero");
  program.max_out_bytes = 100'000;
  EXPECT_TRUE(RunSubprocess(program).Succeeded());
  program.max_out_bytes = 99'999;
  const ExitInfo exit = RunSubprocess(program);
  EXPECT_EQ(exit.how, End::kTooMuch);
  EXPECT_EQ(exit.out.size(), 100'000U) << "as much as shows that it was too much";
}

TEST(Subprocess, IsKilledWhenItPrintsTooMuch) {
  Subprocess program = Script("exec cat /dev/zero");
  program.max_out_bytes = 1000;
  EXPECT_EQ(RunSubprocess(program).how, End::kTooMuch);
}

TEST(Subprocess, KeepsTheFirstMebibyteOfStderrAndNoMoreInMemory) {
  // Its own stderr, looked at after 300 MB have been written to it.
  const ExitInfo exit = RunSubprocess(
      Script("echo first >&2; head -c 300000000 /dev/zero >&2; sleep 0.1; stat -Lc %s /dev/fd/2"));
  EXPECT_TRUE(exit.Succeeded());
  EXPECT_EQ(exit.err.size(), 1U << 20);
  EXPECT_EQ(exit.err.substr(0, 6), "first\n");
  EXPECT_LE(std::stoul(exit.out), 1U << 20);
}

TEST(Subprocess, ThatIsOverdueIsKilledAndWhatItPrintedIsKept) {
  Subprocess program = Script("echo answer; echo reason >&2; exec sleep 1000");
  program.timeout = std::chrono::milliseconds(200);
  const ExitInfo exit = RunSubprocess(program);
  EXPECT_EQ(exit.how, End::kOverdue);
  EXPECT_EQ(exit.out, "answer\n");
  EXPECT_EQ(exit.err, "reason\n");
}

TEST(Subprocess, LeavesNoStreamThatADaemonCanFill) {
  // mkstemp(3) puts others in the place of the six X.
  std::string pattern = "/tmp/nomad-bridge-test-XXXXXX";
  const UniqueFd log(::mkstemp(pattern.data()));
  const ExitInfo exit = RunSubprocess(
      Script(Cat("setsid sh -c 'echo $$; while echo more; do sleep 0.01; done; echo ended >",
                 pattern,
                 "' & while ! grep -q more /dev/fd/1; do sleep 0.01; done")));
  EXPECT_THAT(exit.out, HasSubstr("\nmore\n"));
  EXPECT_TRUE(test::Soon([&] { return FindFile(pattern) == "ended\n"; }))
      << "its writes do not fail";
  ::kill(std::stoi(exit.out), SIGKILL);
  ::unlink(pattern.c_str());
}

TEST(Subprocess, InheritsNoVariable) {
  Subprocess program = Script("");
  program.path = "/usr/bin/env";
  program.arguments = {};
  program.environment = {"A=1", "B="};
  EXPECT_EQ(RunSubprocess(program).out, "A=1\nB=\n");
}

TEST(Subprocess, ThatCannotBeStartedIsAnError) {
  Subprocess program = Script("");
  program.path = "/nowhere/none";
  EXPECT_THAT(Caught([&] { return RunSubprocess(program); }),
              IsError(Code::kIo, "cannot start '/nowhere/none'", HasSubstr("ENOENT")));
}

}  // namespace
}  // namespace nomad_bridge
