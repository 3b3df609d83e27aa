// Commands of which the kernel refuses one request: what is half done must be taken back.
#pragma once

#include <string>

#include "tests/support/process.h"

namespace nomad_bridge::test {

// NOLINTNEXTLINE(bugprone-exception-escape): nlohmann's move is noexcept; its assertions confuse the check.
struct Refusal {
  Outcome outcome;
  bool happened = false;  // false: the command made fewer requests
};

// By which call the requests go: "sendmsg" to rtnetlink and conntrack, "sendto" to nf_tables.
inline const auto kRequestCalls = {"sendmsg", "sendto"};

// The N-th netlink request of `command` by that call, from 1, never gets to the kernel: EPERM.
[[nodiscard]] Refusal RunRefusedAt(Command command, const std::string& call, int nth);

}  // namespace nomad_bridge::test
