// The socket on which systemd waits for changes of nf_tables. systemd hands it to the program that
// it then starts (packaging/systemd/nomad-bridge-reconcile.socket).
//
// Order      Read it empty before examining anything: a later change leaves a message, and systemd
//            starts the program again. If it is not read empty, systemd starts the program without
//            end.
// Overrun    Switched off on the socket for good (NETLINK_NO_ENOBUFS): systemd gives up a socket
//            that it finds in error. Messages that do not fit are lost. That does no harm: the
//            messages before them have already started the program.
// Ownership  The descriptor is ours and is closed; systemd keeps its own.
// Errors     kKernel if the socket cannot be read.
// Source     sd_listen_fds(3), systemd.socket(5): ListenNetlink=; netlink(7).
#pragma once

#include <chrono>

#include "base/fd.h"

namespace nomad_bridge::nft {

// Changes come in bursts: a firewall that is reloaded, an ADD and what follows it.
constexpr std::chrono::milliseconds kQuiet{200};
constexpr std::chrono::milliseconds kMaxBurst{1000};

// Returns no descriptor if systemd handed none to this process.
[[nodiscard]] UniqueFd TakeChangeSocket();

// Reads until nothing has come for `kQuiet`, but no longer than `kMaxBurst`. Returns whether there
// was any message: systemd also hands the socket to a program that a timer has started.
[[nodiscard]] bool DrainChanges(const UniqueFd& socket);

}  // namespace nomad_bridge::nft
