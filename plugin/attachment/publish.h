// Puts the rules of an attachment in force. Also removes stale owners of its addresses and ports,
// makes other firewalls accept its traffic, and gives its ports to a sibling. A sibling is another
// attachment of the same container.
//
// Errors   Those of rules/commit.h. A stale owner that cannot be removed is logged and ignored.
// Locks    The caller holds the attachment's lock. The locks of stale owners and siblings are only
//          tried.
#pragma once

#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

// Commits all elements of `record` in one atomic batch. The batch takes over elements that a stale
// attachment has; then that attachment is removed. With the commit, parts in phase kMaking become
// live in the record's file. Then sets route_localnet, which is safe only with the rules, and
// deletes stale UDP flows of published ports.
void Publish(state::Host& host, const state::Record& record);

// Commits the elements that the bridge port of `record` needs before it has addresses, for an IPAM
// plugin that sends over the link. The parts stay in phase kMaking.
void PublishPort(state::Host& host, const state::Record& record);

// Commits the elements of a live attachment again, of which the kernel has lost some.
void PublishAgain(state::Host& host, const state::Record& record);

// Publishes the ports of siblings of `record` that want them. The rules of `record` must be gone
// already: until then the ports are taken. An error is logged and ignored.
void PublishForSiblings(state::Host& host, const state::Record& record);

}  // namespace nomad_bridge::attachment
