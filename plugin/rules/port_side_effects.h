// What published ports need beside their rules.
//
// Errors  kKernel, kIo.
#pragma once

#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// Stale UDP flows to the published ports of `record`: they would go on to where the port led
// before.
void ForgetStaleFlows(state::Host& host, const state::Record& record);

// 127.0.0.1 → published port needs route_localnet on the bridge; the table's guard keeps others
// from abusing it, so this comes after the rules.
void EnsureLocalhostReaches(const state::Record& record);

}  // namespace nomad_bridge::rules
