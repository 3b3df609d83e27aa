// Compares the host's side with the records and repairs it, for CHECK and the operators' commands.
// ADD repairs what attachments share, by segment.h and rules/check_ruleset.h. The container's side
// belongs to the container: link/container.h compares it, and nothing changes it. What no record
// explains stays: gc removes it (collect.h).
//
// Order    First come the bridge and gateway that attachments share; then the host veth and the
//          leases of each attachment; then the rules in one batch, since they name the links.
//          route_localnet comes after the rules that make it safe. Other programs' firewalls come
//          last, because their tools take time.
// Log      Names each repair on stderr, in the words of the finding, once no lock is held.
// Errors   ReconcileAll(): the report names what failed, and everything else is repaired; throws
//          kIo or kKernel if the records cannot even be listed. The others throw if the kernel
//          refuses a change: the errors of link/bridge.h, rules/commit.h and rules/check_ruleset.h.
// Locks    ReconcileAll() tries the lock of an attachment with a finding, and then looks at the
//          attachment again. Takes the leases' lock if a lease is lost, and the rules' lock for the
//          rules. ReconcileRules() and ReconcileOne() take it only if some rule differs.
#pragma once

#include <vector>

#include "plugin/attachment/reconcile_report.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::attachment {

// The host's side of all attachments. `links`: the links of the node, listed just before; null:
// lists them. Dumps each set of our tables, and reads the files of each attachment.
ReconcileReport ReconcileAll(
    state::Host& host,
    Mode mode,
    const std::vector<rtnl::Link>* links = nullptr,
    const Progress& progress = [](std::size_t, std::size_t) {});

// Our tables, static rules, and other firewalls, after somebody has changed a rule. The cost does
// not depend on the number of attachments, unless our tables were changed.
ReconcileReport ReconcileRules(state::Host& host, Mode mode);

// All that the live parts of `record` need on the host's side. The caller holds the attachment's
// lock. The cost does not depend on the number of attachments, unless the bridge was lost, or our
// tables were changed.
ReconcileReport ReconcileOne(state::Host& host, const state::Record& record, Mode mode);

}  // namespace nomad_bridge::attachment
