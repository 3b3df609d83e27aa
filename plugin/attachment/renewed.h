// Addresses that another IPAM plugin has changed since ADD, as a DHCP client does whose lease was
// renewed with another address: records, rules and sourceCheck follow.
//
// Follows  in place of a recorded address that the container's interface has no more, the one that
//          it has in the same subnet. Nobody but the plugin knows whether it was assigned: an
//          allocation with NET_ADMIN can choose its own in that subnet, but none that another
//          attachment has. One of "static" is never changed.
// Errors   those of rules/commit.h; kConflict if another attachment has it
// Locks    Under mode kRepair the attachment's is held by the caller.
#pragma once

#include "base/mismatch.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

// Whether the addresses of `record` may change while it lives.
[[nodiscard]] bool IsRenewable(const state::Record& record);

// The addresses of `record` are the container's. Returns the live parts of the record as it is
// then.
[[nodiscard]] state::Record CheckRenewed(state::Host& host,
                                         const state::Record& record,
                                         Mismatches& mismatches);

}  // namespace nomad_bridge::attachment
