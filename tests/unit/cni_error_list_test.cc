#include "plugin/cni/error_list.h"
#include "tests/support/test.h"

namespace nomad_bridge {
namespace {

TEST(ErrorList, IsThrownAsOneError) {
  cni::ErrorList errors;
  errors.Try("one", [] { throw Error(Code::kKernel, "no", "EPERM"); });
  errors.Try("two", [] {});
  errors.Try("three", [] { throw Error(Code::kIo, "nor that"); });
  EXPECT_THAT(Caught([&] { errors.ThrowIfAny("not all is gone"); }),
              IsError(Code::kIncomplete,
                      "not all is gone",
                      "cannot remove one: no: EPERM; cannot remove three: nor that"));
}

}  // namespace
}  // namespace nomad_bridge
