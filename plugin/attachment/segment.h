// What attachments behind one gateway share: the bridge, the gateway's addresses, forwarding, and
// what policies see of its traffic.
//
// Costs    Do not depend on the number of attachments, unless a bridge was made anew: its ports,
//          which are looked for in all records, are plugged in again.
// Errors   Those of link/bridge.h and rules/converge.h.
// Locks    The rules' lock is taken, an attachment's only by TryLock.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

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

// The same for an attachment that is yet to be made: a bridge or a VLAN's gateway that nobody has
// used is not repaired, but made.
void CheckNewSegment(state::Host& host, const state::Record& record, Mismatches& mismatches);

// Mismatch::part, where a bridge of ours has an uplink.
constexpr std::string_view kStrayUplink = "stray uplink";

// A bridge of ours with an uplink is its operator's way to a LAN, or somebody's mistake: strangers
// are on it as long as the uplink is, and an ADD, which cannot ask for all its ports, goes by who
// made it. One without an uplink gets its MAC back, by which an ADD knows that. `recorded`: whether
// it is adopted, as its records have it.
void CheckAdopted(state::Host& host,
                  const std::string& bridge_name,
                  const std::set<bool>& recorded,
                  Mismatches& mismatches);

}  // namespace nomad_bridge::attachment
