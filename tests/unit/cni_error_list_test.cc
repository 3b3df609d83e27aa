#include <gtest/gtest.h>

#include "plugin/cni/error_list.h"
#include "tests/support/caught.h"

namespace nomad_bridge {
namespace {

TEST(ErrorList, IsThrownAsOneError) {
  cni::ErrorList errors;
  errors.Try("one", [] { throw Error(Code::kKernel, "no", "EPERM"); });
  errors.Try("two", [] {});
  errors.Try("three", [] { throw Error(Code::kIo, "nor that"); });
  const Error error = test::Caught([&] { errors.ThrowIfAny("not all is gone"); });
  EXPECT_EQ(error.code(), Code::kIncomplete);
  EXPECT_EQ(error.msg(), "not all is gone");
  EXPECT_EQ(error.details(), "cannot remove one: no: EPERM; cannot remove three: nor that");
}

}  // namespace
}  // namespace nomad_bridge
