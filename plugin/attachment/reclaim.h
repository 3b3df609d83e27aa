// What attachments held whose namespace has gone, given back when somebody needs it: an address of a
// full pool, a host port.
//
// Why      Nomad never tells us of an allocation that ended while its agent was away.
// Locks    The other attachment's, by TryLock only: one that a command works on counts as alive.
#pragma once

#include <string>

#include "plugin/state/host.h"

namespace nomad_bridge::attachment {

// Removes all of `id` if it is dead: elements, link, leases, record. False if it lives, or is
// unknown to us.
[[nodiscard]] bool ReclaimIfStale(state::Host& host, const AttachmentId& id);

// Buries every dead attachment of `network`, elements included; returns how many. Then leases from
// before the last boot, which no namespace can have survived.
int ReclaimStale(state::Host& host, const std::string& network, const std::string& data_dir);

}  // namespace nomad_bridge::attachment
