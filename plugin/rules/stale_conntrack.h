// Deletes conntrack entries of UDP flows after a change of the rules. Otherwise the kernel would
// treat these flows by the former rules as long as their entries exist.
//
// Order    Call these functions once the new rules are in force, or the old ones are gone.
//          Otherwise a packet in between begins the same flow again, by the former rules.
// Errors   kKernel.
// Locks    None.
#pragma once

#include <vector>

#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

// Deletes the entries for `parts` of `record`. For part kPorts, deletes flows to its published
// ports on this node's addresses, because conntrack would translate them to the earlier target.
// Flows to the same port elsewhere stay, except unanswered IPv6 flows: the next packet begins these
// again. For part kAddress, deletes flows from and to its addresses, because the next owner of an
// address would get them. Deletes IPv6 flows only if the address is from a range of at most
// 65,536 addresses, because the search for an entry takes longer than the rest of a DEL.
void DeleteStaleConntrack(state::Host& host, const state::Record& record, const cni::Parts& parts);

// Deletes the entries from and to an address that another container may just have had.
void DeleteStaleConntrackOf(state::Host& host, const Ip& address);

// Deletes the entries that began while the rules were away: flows to the ports of `records`, and
// flows out of their containers. As long as such an entry lasts, no rule translates its flow.
void DeleteUntranslatedConntrack(state::Host& host, const std::vector<state::Record>& records);

}  // namespace nomad_bridge::rules
