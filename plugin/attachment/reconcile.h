// The host's side of every live attachment, in all networks: compared with the records and repaired,
// for those who do not want to wait for the next ADD or CHECK.
//
// Order    what attachments share behind a gateway, each one's host veth and leases, then the rules of
//          all in one batch, then other programs' firewalls
// Errors   None for a single attachment: what failed is in the result, and the others are repaired all
//          the same. kIo, kKernel if not even the records can be listed.
// Locks    Each attachment's own by TryLock, one after the other; then the rules'. None is held by the
//          caller.
// Costs    Some questions to the kernel per attachment, and a dump per set of our table.
#pragma once

#include "plugin/attachment/findings.h"
#include "plugin/state/host.h"

namespace nomad_bridge::attachment {

// Whether nobody has changed a rule since our last commit: one question to the kernel.
[[nodiscard]] bool IsUnchanged(state::Host& host);

// Logs what it repairs, as all here.
[[nodiscard]] Findings Reconcile(state::Host& host, Dry dry, const Progress& progress);

// For changes that are rules::AreForeign(): the rules that attachments share and other programs' firewalls,
// as an ADD looks at them. All records are read, but without a lock; no question for each attachment.
[[nodiscard]] Findings ReconcileAfterForeignChanges(state::Host& host);

}  // namespace nomad_bridge::attachment
