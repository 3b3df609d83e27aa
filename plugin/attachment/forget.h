// Forgetting networks that are gone: what the node keeps of them although nobody uses it.
//
// Network     gone if it has neither a record nor a lease: its directory of records, and its lists
//             of leases (lease_history.h). The directories of leases stay: the reference plugin's
//             may be among them, and what was given out last is in there.
// Checkpoint  what it says of bridges whose link is gone.
// Errors      kIo, kKernel
// Locks       A list's directory of leases', then the rules', each for its own step; none may be
//             held by the caller but those of attachments. A list goes while no ADD can lease
//             there; an ADD that is about to write its record makes the network's directory anew.
#pragma once

#include "plugin/state/host.h"

namespace nomad_bridge::attachment {

void ForgetGoneNetworks(state::Host& host);

}  // namespace nomad_bridge::attachment
