// The rules of an attachment put in force, and what that entails for others: stale owners of an
// address or a port are torn down, other firewalls accept our traffic, a sibling gets its ports.
//
// Errors   Those of rules/commit.h. What cannot be removed of a stale owner is logged and ignored.
// Locks    The attachment's own lock is held by the caller. Stale owners and siblings by TryLock
//          only.
#pragma once

#include "base/mismatch.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

// Puts all elements of `record` in force, in one atomic batch; takes over those that a stale
// attachment has, and tears that one down. Then what its published ports need besides:
// route_localnet, which the rules keep safe, and no stale UDP flows. Parts of `record` that are
// being made are live in its file from the commit on.
void Publish(state::Host& host, const state::Record& record);

// Puts in force what can be said of the port of `record` before it has addresses, for an IPAM
// plugin that asks on the link. Its parts are still being made afterwards.
void PublishPort(state::Host& host, const state::Record& record);

// The rules of `record`, all parts of which are live, are in force.
void CheckRules(state::Host& host, const state::Record& record, Mismatches& mismatches);

// Publishes the ports of `record`, whose rules are gone, for another live attachment of the same
// container that wants them too.
void TransferPortsToSibling(state::Host& host, const state::Record& record);

}  // namespace nomad_bridge::attachment
