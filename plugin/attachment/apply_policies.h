// Puts policies in force, for all attachments of the node at once.
//
// Atomic  One batch switches the policies: either the former policies or the new ones judge a
//         packet. If the process is killed before the batch, the next ADD, CHECK or reconcile finds
//         the new policies in their file and puts them in force.
// Errors  kConflict or kKernel if policies would not see the traffic of a bridge; the errors of
//         rules/check_ruleset.h. The former policies then stay in force.
// Locks   Holds the rules' lock until the new policies are in force. Attachments' locks are only
//         tried.
#pragma once

#include <string>
#include <vector>

#include "base/finding.h"
#include "plugin/policy/program.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

// Returns messages for people about traffic that the policies in force do not see
// (rules/bridge_netfilter.h).
[[nodiscard]] FindingList FindUnseenTraffic(state::Host& host);

struct ApplyReport {
  policy::Program former;              // empty if the policies in force were damaged
  std::vector<state::Record> changed;  // attachments to which other policies apply than before
  FindingList unseen;                  // traffic that the new policies do not see
};

// Replaces the policies in force by `program`. `directory` has the files of `program`; it is empty
// if no file names policies. Mode kLook changes nothing.
ApplyReport ApplyPolicies(state::Host& host,
                          const policy::Program& program,
                          const std::string& directory,
                          Mode mode);

}  // namespace nomad_bridge::attachment
