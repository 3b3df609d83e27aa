// The limits of a subprocess. What else its header promises is tested through cni_delegate_test.cc.
#include "base/subprocess.h"
#include "tests/support/test.h"

namespace nomad_bridge {
namespace {

Subprocess Script(const std::string& script) {
  return {.path = "/bin/sh",
          .arguments = {"-c", script},
          .environment = {"PATH=/usr/bin:/bin"},
          .timeout = std::chrono::seconds(60)};
}

TEST(Subprocess, IsKilledWhenItPrintsTooMuch) {
  EXPECT_EQ(RunSubprocess(Script("exec cat /dev/zero")).how, End::kTooMuch);
  EXPECT_EQ(RunSubprocess(Script("exec cat /dev/zero >&2")).how, End::kTooMuch);
}

TEST(Subprocess, IsKilledAfterItsTimeoutAndItsOutputIsKept) {
  Subprocess program = Script("echo answer; echo reason >&2; exec sleep 1000");
  program.timeout = std::chrono::milliseconds(200);
  const ExitInfo exit = RunSubprocess(program);
  EXPECT_EQ(exit.how, End::kOverdue);
  EXPECT_EQ(exit.out, "answer\n");
  EXPECT_EQ(exit.err, "reason\n");
}

TEST(Subprocess, InheritsNoVariable) {
  Subprocess program = Script("");
  program.path = "/usr/bin/env";
  program.arguments = {};
  program.environment = {"A=1", "B="};
  EXPECT_EQ(RunSubprocess(program).out, "A=1\nB=\n");
}

TEST(Subprocess, IsAnErrorIfItCannotBeStarted) {
  Subprocess program = Script("");
  program.path = "/nowhere/none";
  EXPECT_THAT(Caught([&] { return RunSubprocess(program); }),
              IsError(Code::kIo, "cannot start '/nowhere/none'", HasSubstr("ENOENT")));
}

}  // namespace
}  // namespace nomad_bridge
