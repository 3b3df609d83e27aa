// Children that outlive a command. Each waits for the kernel in place of the command
// (netlink/core/background_request.h).
//
// Zombies  The process that inherits the children reaps them. A process 1 that reaps late, or
//          never, gets 64 of them, and some more if many commands end at once. Then
//          commands wait for the kernel themselves.
// Shapes   /run/nomad-bridge/.children   pids in decimal, each followed by '\n'
// Errors   None: problems with that file are ignored.
#pragma once

#include <sys/types.h>

#include "plugin/state/host.h"

namespace nomad_bridge::state {

[[nodiscard]] bool MayStartChild();
void NoteChild(pid_t pid);

// Lets a child wait until the kernel has freed what was removed from nf_tables. If there is no
// child, the command waits at its end.
void LeaveRemovedToChild(const Host& host);

}  // namespace nomad_bridge::state
