// What stale attachments hold, whose namespace is gone, reclaimed when somebody needs it: an address
// of a full pool, a host port.
//
// Why      Nomad sends no DEL for an allocation that ended while its agent was away.
// Errors   kIo, kTryAgain of the leases; what cannot be removed of an attachment is logged.
// Locks    The other attachment's by TryLock only: one that a command works on counts as alive.
#pragma once

#include <string>

#include "plugin/state/host.h"

namespace nomad_bridge::attachment {

// Removes all of `id` if it is stale: elements, link, leases, record. False if it is alive, unknown,
// or could not be removed.
[[nodiscard]] bool ReclaimIfStale(state::Host& host, const AttachmentId& id);

// Removes every stale attachment of `network`, then the leases from before the last boot that no
// record explains. Returns how many attachments and leases that were.
int ReclaimStale(state::Host& host, const std::string& network, const std::string& data_dir);

}  // namespace nomad_bridge::attachment
