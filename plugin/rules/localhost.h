// Lets the node reach published ports on 127.0.0.1: sets route_localnet on the links by which
// answers come back.
//
// Order   Call it after the rules are in force: the chain localhost_guard protects the node from
//         misuse of route_localnet. While the rules are flushed, a tc filter protects the node.
// Errors  kKernel, kIo.
#pragma once

#include "base/finding.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// Returns whether ports of `record` answer on 127.0.0.1. Without `snat` no answer comes back, and
// for IPv6 the kernel has no such setting.
[[nodiscard]] bool HasLocalhostPorts(const state::Record& record);

void CheckLocalhost(state::Host& host, const state::Record& record, Findings& findings);

}  // namespace nomad_bridge::rules
