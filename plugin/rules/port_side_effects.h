// What published ports need besides their rules: conntrack and sysctls.
//
// Errors  kKernel, kIo.
// Locks   None.
#pragma once

#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// Deletes UDP flows to the published ports of `record`: conntrack would go on translating them to the
// earlier target.
void ForgetStaleFlows(state::Host& host, const state::Record& record);

// Lets the node reach published ports by 127.0.0.1: needs route_localnet on the bridge. To be called
// after the rules are in force, as localhost_guard protects the node from its misuse.
void EnsureLocalhostReaches(const state::Record& record);

}  // namespace nomad_bridge::rules
