// Commands of which the kernel refuses one netlink request: what is half done must be undone.
#pragma once

#include <string>

#include "tests/support/process.h"

namespace nomad_bridge::test {

// NOLINTNEXTLINE(bugprone-exception-escape): nlohmann's move is noexcept; its assertions confuse the check.
struct Refusal {
  Outcome outcome;
  bool happened = false;  // false: the command made fewer requests
};

// The N-th netlink request of `command`, from 1, never reaches the kernel: its sendto(2) fails with
// EPERM.
[[nodiscard]] Refusal RunRefusedAt(Command command, int nth);

}  // namespace nomad_bridge::test
