// What published ports need besides their rules: conntrack and sysctls.
//
// Errors  kKernel, kIo.
// Locks   None.
#pragma once

#include <string>
#include <vector>

#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// Deletes UDP flows to the published ports of `record` on this node: conntrack would go on translating
// them to the earlier target. Flows to the same port elsewhere stay. (IPv6 flows to a port published on
// all addresses go wherever they lead, unless the node masquerades them; the next packet begins them
// anew.)
void ForgetStaleFlows(state::Host& host, const state::Record& record);

// Of `records`, whose rules were away and are in force again: deletes UDP flows that began meanwhile,
// to their ports and out of their containers. Nothing translates those, and nothing would.
void ForgetUntranslatedFlows(state::Host& host, const std::vector<state::Record>& records);

// Lets the node reach published ports by 127.0.0.1: needs route_localnet on the bridge. To be called
// after the rules are in force, as localhost_guard protects the node from its misuse; a tc filter does
// while they are flushed.
void EnsureLocalhostReaches(state::Host& host, const state::Record& record);
// What of it is off or missing, one line each.
[[nodiscard]] std::vector<std::string> DiffLocalhostReaches(state::Host& host,
                                                            const state::Record& record);

}  // namespace nomad_bridge::rules
