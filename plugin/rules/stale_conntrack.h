// Deletes conntrack entries of UDP flows that the kernel would go on treating as before a change of
// the rules.
//
// Order    Call these functions after the rules are in force, or gone: a packet in between would
//          begin the same flow again, treated as before.
// Errors   kKernel.
// Locks    None.
#pragma once

#include <vector>

#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// Deletes the entries for `parts` of `record`. Part kPorts: flows to its published ports on this
// node's addresses, which conntrack would go on translating to the earlier target. Flows to the
// same port elsewhere stay, except unanswered IPv6 flows, which the next packet begins again. Part
// kAddress: flows from and to its addresses, which the next owner would get. IPv6 flows only if the
// address is from a range of fewer than 65,536, because looking for an entry takes longer than the
// rest of a DEL.
void DeleteStaleConntrack(state::Host& host, const state::Record& record, const cni::Parts& parts);

// Deletes the entries from and to an address that another container may just have had.
void DeleteStaleConntrackOf(state::Host& host, const Ip& address);

// Deletes the entries to the ports of `records`, and out of their containers, that began while the
// rules were away: as long as such an entry lasts, nothing translates its flow.
void DeleteUntranslatedConntrack(state::Host& host, const std::vector<state::Record>& records);

}  // namespace nomad_bridge::rules
