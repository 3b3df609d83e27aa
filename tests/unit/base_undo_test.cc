#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "base/undo.h"
#include "plugin/cni/error_list.h"

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

TEST(Undo, GoesOnPastAStepThatFails) {
  bool ran = false;
  {
    Undo undo;
    undo.Then("first", [&] { ran = true; });
    undo.Then("second", [] { throw std::runtime_error("on purpose"); });
  }
  EXPECT_TRUE(ran);
}

TEST(Failures, AreThrownTogether) {
  cni::Failures failures;
  failures.Try("one", [] { throw Error(Code::kKernel, "no", "EPERM"); });
  failures.Try("two", [] {});
  failures.Try("three", [] { throw Error(Code::kIo, "nor that"); });
  try {
    failures.ThrowIfAny("not all is gone");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kIncomplete);
    EXPECT_EQ(error.details(), "cannot remove one: no: EPERM; cannot remove three: nor that");
  }
}

}  // namespace
}  // namespace nomad_bridge
