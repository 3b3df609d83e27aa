// The socket on which systemd waits for changes of nf_tables, handed to the program that it starts
// (packaging/systemd/nomad-bridge-reconcile.socket).
//
// Order      It is read empty before anything is examined: a change that comes later leaves a
//            message, for which systemd starts the program again. It must be read empty, or systemd
//            starts the program without end.
// Overrun    Is switched off on the socket for good (NETLINK_NO_ENOBUFS): systemd gives up a socket
//            that it finds in error. Messages that do not fit are lost; those before them have
//            started the program all the same.
// Ownership  The descriptor is ours and is closed; systemd keeps its own.
// Errors     kKernel if it cannot be read.
// Source     sd_listen_fds(3), systemd.socket(5): ListenNetlink=; netlink(7).
#pragma once

#include <chrono>

#include "base/fd.h"

namespace nomad_bridge::nft {

// Changes come in bursts: a firewall that is reloaded, an ADD and what follows it.
constexpr std::chrono::milliseconds kQuiet{200};
constexpr std::chrono::milliseconds kMaxBurst{1000};

// Owns nothing if none was handed to this process.
[[nodiscard]] UniqueFd TakeChangeSocket();

// Reads until nothing has come for `kQuiet`, but no longer than `kMaxBurst`. Returns whether there
// was any message: systemd hands the socket also to a program that a timer has started.
[[nodiscard]] bool DrainChanges(const UniqueFd& socket);

}  // namespace nomad_bridge::nft
