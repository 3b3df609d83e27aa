// What published ports need beside their rules.
//
// Errors  kKernel, kIo.
#pragma once

#include "plugin/host.h"
#include "plugin/record.h"

namespace nomad_bridge {

// Stale UDP flows to the published ports of `record`: they would go on to where the port led
// before.
void ForgetStaleFlows(Host& host, const Record& record);

// 127.0.0.1 → published port needs route_localnet on the bridge; the table's guard keeps others
// from abusing it, so this comes after the rules.
void EnsureLocalhostReaches(const Record& record);

}  // namespace nomad_bridge
