#include "base/undo.h"
#include "tests/support/test.h"

namespace nomad_bridge {
namespace {

TEST(Undo, RunsTheStepsLastFirst) {
  std::string order;
  {
    Undo undo;
    undo.Then("first", [&] { order += '1'; });
    undo.Then("second", [&] { order += '2'; });
  }
  EXPECT_EQ(order, "21");
}

TEST(Undo, DoesNothingAfterKeep) {
  bool ran = false;
  {
    Undo undo;
    undo.Then("step", [&] { ran = true; });
    undo.Keep();
  }
  EXPECT_FALSE(ran);
}

TEST(Undo, ContinuesAfterAFailedStep) {
  bool ran = false;
  {
    Undo undo;
    undo.Then("first", [&] { ran = true; });
    undo.Then("second", [] { throw std::runtime_error("on purpose"); });
  }
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace nomad_bridge
