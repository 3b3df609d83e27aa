// Children that outlive a command, each of which waits for the kernel in its stead
// (netlink/core/background_request.h).
//
// Zombies  The process that inherits them reaps them. A process 1 that reaps late, or never, gets
//          `kMaxZombies` of them, and some more if many commands end at once. Then commands wait
//          for the kernel themselves.
// Shapes   /run/nomad-bridge/.children   pids in decimal, each followed by '\n'
// Errors   none: what concerns that file is ignored
#pragma once

#include <sys/types.h>

#include "plugin/state/host.h"

namespace nomad_bridge::state {

constexpr int kMaxZombies = 64;

[[nodiscard]] bool MayStartChild();
void NoteChild(pid_t pid);

// Has a child wait for what was removed from nf_tables. Where there can be none, the end of the
// command waits.
void LeaveRemovedToChild(const Host& host);

}  // namespace nomad_bridge::state
