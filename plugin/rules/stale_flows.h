// UDP flows that conntrack goes on treating as before the rules were changed: forgotten.
//
// Errors  kKernel.
// Locks   None.
#pragma once

#include <vector>

#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// Deletes the UDP flows that `parts` of `record` concern. Its published ports: those to them on
// this node's addresses, which conntrack would go on translating to the earlier target; flows to
// the same port elsewhere stay, but for IPv6 ones that nobody has answered, which the next packet
// begins anew. Its addresses: all from and to them, which would be the next owner's; IPv6 ones only
// of a range of fewer than 65,536, as looking for one takes longer than the rest of a DEL.
void ForgetStaleFlows(state::Host& host, const state::Record& record, const cni::Parts& parts);

// All from and to an address that somebody may just have had.
void ForgetFlowsOf(state::Host& host, const Ip& address);

// Of `records`, whose rules were away and are in force again: deletes UDP flows that began
// meanwhile, to their ports and out of their containers. Nothing translates those, and nothing
// would.
void ForgetUntranslatedFlows(state::Host& host, const std::vector<state::Record>& records);

}  // namespace nomad_bridge::rules
