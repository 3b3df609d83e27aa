// Waiting for what happens in its own time and has no event to wait for: the kernel's tidying up,
// another program's start.
#pragma once

#include "tests/support/test.h"

namespace nomad_bridge::test {

// Whether `happened` becomes true within half a minute, asked again and again.
[[nodiscard]] bool Soon(const std::function<bool()>& happened);

}  // namespace nomad_bridge::test
