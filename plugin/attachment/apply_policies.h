// Puts policies in force, for all attachments of the node at once.
//
// Atomic  Policies are switched in one batch: every packet is judged by the former policies or by
//         the new ones. If the process is killed before the batch, the next ADD, CHECK or reconcile
//         finds the new policies in their file and puts them in force.
// Errors  kConflict or kKernel if policies would not see the traffic of a bridge; those of
//         rules/converge.h. The former policies then stay in force.
// Locks   The rules' lock until the new policies are in force; attachments' locks by TryLock.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/mismatch.h"
#include "netlink/conntrack/conntrack.h"
#include "plugin/policy/program.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

// Returns the traffic that the policies in force do not see, for people (rules/bridge_netfilter.h).
[[nodiscard]] std::vector<Mismatch> FindUnseenTraffic(state::Host& host);

struct ReachChanges {
  policy::Program former;              // empty if the policies in force were damaged
  std::vector<state::Record> changed;  // attachments to which other policies apply than before
  std::vector<Mismatch> unseen;        // traffic that the new policies do not see
};

// Replaces the policies in force by `program`. `directory`: where `program` comes from; empty if no
// file there names policies. Mode kLook changes nothing.
ReachChanges ApplyPolicies(state::Host& host,
                           const policy::Program& program,
                           const std::string& directory,
                           Mode mode);

// Ends the connections from and to live attachments that the policies in force refuse, and returns
// how many. Without it, connections that began before `apply` go on. A connection that was ended
// earlier and would be allowed now may begin anew. With kNone no further connections are ended.
std::size_t CutRefused(state::Host& host, conntrack::Conntrack::More more);

}  // namespace nomad_bridge::attachment
