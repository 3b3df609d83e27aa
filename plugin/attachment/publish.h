// Puts the rules of an attachment in force, with the consequences for others: stale owners of an
// address or a port are removed, other firewalls accept our traffic, a sibling gets its ports.
//
// Errors   Those of rules/commit.h. A stale owner that cannot be removed is logged and ignored.
// Locks    The caller holds the attachment's lock. The locks of stale owners and siblings are only
//          tried.
#pragma once

#include "base/mismatch.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

// Commits all elements of `record` in one atomic batch, takes over the elements that a stale
// attachment has, and removes that attachment. Then sets route_localnet, which the rules keep safe,
// and deletes stale UDP flows of published ports. With the commit, parts in phase kMaking become
// live in the record's file.
void Publish(state::Host& host, const state::Record& record);

// Commits the elements that the bridge port of `record` needs before it has addresses, for an IPAM
// plugin that sends over the link. The parts stay in phase kMaking.
void PublishPort(state::Host& host, const state::Record& record);

// Checks that the rules of `record`, all of whose parts are live, are in force; mode kRepair
// restores them.
void CheckRules(state::Host& host, const state::Record& record, Mismatches& mismatches);

// Publishes the ports of `record` for another live attachment of the same container that wants
// them, too. The rules of `record` must be gone already: until then the ports are taken.
void TransferPortsToSibling(state::Host& host, const state::Record& record);

}  // namespace nomad_bridge::attachment
