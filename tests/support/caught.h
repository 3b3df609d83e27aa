// The Error that a function throws, as a value to look at.
#pragma once

#include <gtest/gtest.h>

#include "base/error.h"

namespace nomad_bridge::test {

// Fails the test if `act` throws nothing.
template <typename Act>
[[nodiscard]] Error Caught(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {Code::kInternal, "nothing was thrown"};
}

}  // namespace nomad_bridge::test
