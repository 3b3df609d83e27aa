// Conntrack entries of UDP flows, by which the kernel goes on treating packets as before the rules
// were changed: they are deleted.
//
// Order    After the rules are in force, or gone: a packet in between would begin the same flow
//          anew, treated as before.
// Errors   kKernel.
// Locks    None.
#pragma once

#include <vector>

#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// Deletes the entries that `parts` of `record` concern. Part kPorts: flows to its published ports
// on this node's addresses, which conntrack would go on translating to the earlier target; flows to
// the same port elsewhere stay, but for IPv6 ones that nobody has answered, which the next packet
// begins anew. Part kAddress: flows from and to its addresses, which would be the next owner's;
// IPv6 ones only of a range of fewer than 65,536, as looking for one takes longer than the rest of
// a DEL.
void DeleteStaleConntrack(state::Host& host, const state::Record& record, const cni::Parts& parts);

// Deletes the entries from and to an address that somebody else may just have had.
void DeleteStaleConntrackOf(state::Host& host, const Ip& address);

// Deletes the entries to the ports of `records` and out of their containers that began while the
// rules were away: nothing translates those, and nothing would.
void DeleteUntranslatedConntrack(state::Host& host, const std::vector<state::Record>& records);

}  // namespace nomad_bridge::rules
