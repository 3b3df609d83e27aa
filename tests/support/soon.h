// Waits for changes that take their time and cause no event: for example until the kernel has
// cleaned up, or another program has started.
#pragma once

#include "tests/support/test.h"

namespace nomad_bridge::test {

// Whether `happened` becomes true within half a minute, asked again and again.
[[nodiscard]] bool Soon(const std::function<bool()>& happened);

}  // namespace nomad_bridge::test
