// A guard removes what it made, also if its owner or the guard itself is killed.
#include <csignal>

#include <sys/wait.h>
#include <unistd.h>

#include "base/guard.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/soon.h"
#include "tests/support/test.h"

namespace nomad_bridge {
namespace {

class GuardOfAFile : public ::testing::Test {
 protected:
  // The report is the guard's process ID.
  [[nodiscard]] std::string Make() const {
    ReplaceFile(file_, "made");
    return std::to_string(::getpid());
  }
  void TakeBack() const { fs::remove(file_); }
  [[nodiscard]] Guard Start() {
    return {[this] { return Make(); }, [this] { TakeBack(); }};
  }
  [[nodiscard]] bool IsThere() const { return fs::exists(file_); }

  test::ScratchDirectory scratch_;
  std::string file_ = scratch_.path() + "/file";
};

TEST_F(GuardOfAFile, MakesAndTakesBack) {
  Guard guard = Start();
  EXPECT_NE(guard.Await(), std::to_string(::getpid()));
  EXPECT_TRUE(IsThere());
  guard.TakeBack();
  EXPECT_FALSE(IsThere());
}

TEST_F(GuardOfAFile, IsReplacedByItsOwnerIfItIsKilled) {
  Guard guard = Start();
  ::kill(std::stoi(guard.Await()), SIGKILL);
  guard.TakeBack();
  EXPECT_FALSE(IsThere());
}

TEST_F(GuardOfAFile, IgnoresSignalsOfATerminal) {
  Guard guard = Start();
  const int process = std::stoi(guard.Await());
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    ::kill(process, signal);
  }
  EXPECT_EQ(::getsid(process), process);
  EXPECT_TRUE(IsThere());
}

TEST_F(GuardOfAFile, TakesBackWhenItsOwnerIsKilled) {
  const pid_t owner = ::fork();
  if (owner == 0) {
    Guard guard = Start();
    static_cast<void>(guard.Await());
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(owner, &status, 0), owner);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(test::Soon([&] { return !IsThere(); }));
}

TEST_F(GuardOfAFile, LetsItsOwnerTryAgainIfItFails) {
  const pid_t owner = ::getpid();
  Guard guard(
      [this] { return Make(); },
      [this, owner] { ::getpid() == owner ? TakeBack() : throw Error(Code::kIo, "not here"); });
  static_cast<void>(guard.Await());
  guard.TakeBack();
  EXPECT_FALSE(IsThere());
}

TEST_F(GuardOfAFile, ThatWasKilledReportsNothing) {
  Guard guard(
      []() -> std::string {
        ::raise(SIGKILL);
        return "";
      },
      [] {});
  EXPECT_THAT(Caught([&] { static_cast<void>(guard.Await()); }), IsError(Code::kKernel));
}

}  // namespace
}  // namespace nomad_bridge
