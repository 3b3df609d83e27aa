// Policies put in force, for all attachments of the node at once.
//
// Atomic  One batch: until then every packet is judged by the former policies, from then on by
//         these. Killed before it, the next ADD, CHECK or reconcile finds the new ones in their
//         file and puts them in force.
// Errors  kConflict, kKernel if what passes a bridge cannot be judged; those of rules/converge.h.
//         The former policies stay in force then.
// Locks   The rules' lock until all is in force; attachments' locks by TryLock.
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

// What the policies in force do not see, for people (rules/bridge_netfilter.h).
[[nodiscard]] std::vector<Mismatch> FindUnseenTraffic(state::Host& host);

struct ReachChanges {
  policy::Program former;              // none if those that were in force are damaged
  std::vector<state::Record> changed;  // attachments that other policies are about than before
  std::vector<Mismatch> unseen;        // what they do not see, once they are in force
};

// `directory`: where `program` is from; empty if no file there names policies. In mode kLook
// nothing changes.
ReachChanges ApplyPolicies(state::Host& host,
                           const policy::Program& program,
                           const std::string& directory,
                           Mode mode);

// Ends the connections from and to live attachments that the policies in force refuse, and returns
// how many: what `apply` was too late for goes on otherwise. Those that were ended before and would
// be allowed now may begin anew; with kNone no more are ended.
std::size_t CutRefused(state::Host& host, conntrack::Conntrack::More more);

}  // namespace nomad_bridge::attachment
