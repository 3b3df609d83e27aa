// How the node reaches published ports by 127.0.0.1: route_localnet on the links by which answers
// come.
//
// Order   After the rules are in force: the chain localhost_guard protects the node from the misuse
//         of that setting; a tc filter does while the rules are flushed.
// Errors  kKernel, kIo.
#pragma once

#include "base/mismatch.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

void CheckLocalhost(state::Host& host, const state::Record& record, Mismatches& mismatches);

}  // namespace nomad_bridge::rules
