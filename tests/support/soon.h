// Waits for changes that take their time and cause no event: for example until the kernel has
// cleaned up, or another program has started.
#pragma once

#include "tests/support/test.h"

namespace nomad_bridge::test {

// Calls `happened` again and again. Returns whether it becomes true within half a minute.
[[nodiscard]] bool Soon(const std::function<bool()>& happened);

}  // namespace nomad_bridge::test
