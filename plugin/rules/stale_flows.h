// UDP flows that conntrack goes on treating as before the rules were changed: forgotten.
//
// Errors  kKernel.
// Locks   None.
#pragma once

#include <vector>

#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// Deletes UDP flows to the published ports of `record` on this node: conntrack would go on
// translating them to the earlier target. Flows to the same port elsewhere stay. (IPv6 flows to a
// port published on all addresses go wherever they lead, unless the node masquerades them; the next
// packet begins them anew.)
void ForgetStaleFlows(state::Host& host, const state::Record& record);

// Of `records`, whose rules were away and are in force again: deletes UDP flows that began
// meanwhile, to their ports and out of their containers. Nothing translates those, and nothing
// would.
void ForgetUntranslatedFlows(state::Host& host, const std::vector<state::Record>& records);

}  // namespace nomad_bridge::rules
