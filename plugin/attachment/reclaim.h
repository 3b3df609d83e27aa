// Taking back what stale attachments hold: because an ADD needs it, an address of a full pool or a host
// port, or because GC or the operator says so. (Nomad sends no DEL for an allocation that ended while
// its agent was away.)
//
// Stale    An attachment whose namespace is gone, or that a killed command left (liveness.h). One that a
//          command works on counts as alive.
// Leases   A lease without a record is taken back if it is from before the last boot; or if it is in a
//          network of ours and its owner has neither a link nor, as an attachment of the reference
//          plugins, rules.
// Errors   What cannot be removed is logged, or comes back as a line.
// Locks    A stale attachment's by TryLock only.
#pragma once

#include <string>

#include "base/attachment_id.h"
#include "plugin/attachment/findings.h"
#include "plugin/state/host.h"

namespace nomad_bridge::attachment {

// Removes all of `id` if it is stale: elements, link, leases, record. False if it is alive, unknown,
// or could not be removed.
[[nodiscard]] bool ReclaimIfStale(state::Host& host, const AttachmentId& id);

// Removes every stale attachment of `network`, then the leases from before the last boot that no
// record explains. Returns how many attachments and leases that were.
int ReclaimStale(state::Host& host, const std::string& network, const std::string& data_dir);

// In all networks: stale attachments, leases without a record, and elements that nothing explains.
[[nodiscard]] Findings ReclaimAll(state::Host& host, Dry dry, const Progress& progress);

// Of that the leases alone, changing nothing.
[[nodiscard]] Findings FindLeftOverLeases(state::Host& host);

}  // namespace nomad_bridge::attachment
