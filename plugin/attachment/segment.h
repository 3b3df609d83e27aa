// Checks what attachments behind one gateway share: the bridge, the gateway's addresses,
// forwarding, and whether policies see the bridge's traffic.
//
// Costs    Do not depend on the number of attachments, unless a bridge was created again: then all
//          records are read, to plug its ports back in.
// Errors   Those of link/bridge.h and rules/check_ruleset.h.
// Locks    Takes the rules' lock, but no attachment's lock: a DEL may remove a link at any moment.
#pragma once

#include <optional>
#include <string>

#include "base/finding.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

// Returns a key for the links, addresses, options and ports of a record that CheckSegment() and
// rules::CheckLocalhost() look at: records with the same key need only one call of each. The key
// lacks policies, which cannot always be read.
[[nodiscard]] std::string SegmentKey(const state::Record& record);

// Returns the bridge; nullopt if `record` has none, or if the bridge is missing and is not created.
std::optional<rtnl::Link> CheckSegment(state::Host& host,
                                       const state::Record& record,
                                       Findings& findings);

// Like CheckSegment() in mode kRepair, for an attachment that is about to be created. Does not
// report what it creates or repairs. Throws kConflict if only the operator can repair the bridge.
void EnsureSegment(state::Host& host, const state::Record& record);

// Makes all that attachments of the network of `record` will share, before the first of them: also
// the tables, the static rules, and what other firewalls need.
void EnsureNetwork(state::Host& host, const state::Record& record);

}  // namespace nomad_bridge::attachment
