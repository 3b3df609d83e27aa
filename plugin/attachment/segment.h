// What attachments behind one gateway share: the bridge, the gateway's addresses, forwarding, and
// what policies see of its traffic.
//
// Costs    Do not depend on the number of attachments, unless a bridge was made anew: its ports,
//          which are looked for in all records, are plugged in again.
// Errors   Those of link/bridge.h and rules/converge.h.
// Locks    The rules' lock is taken, no attachment's: a DEL may remove a link at any moment.
#pragma once

#include <optional>
#include <string>

#include "base/mismatch.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

// Attachments with the same key share all that CheckSegment() and rules::CheckLocalhost() look at.
[[nodiscard]] std::string SegmentKey(const state::Record& record);

// Returns the bridge; nullopt if `record` has none, or it is missing and not to be made.
std::optional<rtnl::Link> CheckSegment(state::Host& host,
                                       const state::Record& record,
                                       Mismatches& mismatches);

// The same in mode kRepair, for an attachment that is about to be made: nothing is said of what is
// made or repaired. Throws kConflict if only the operator can put the bridge right.
void EnsureSegment(state::Host& host, const state::Record& record);

}  // namespace nomad_bridge::attachment
