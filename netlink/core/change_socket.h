// The socket on which systemd waits for changes of nf_tables, handed to the program that it starts
// (packaging/systemd/nomad-bridge-watch.socket). What the messages say does not matter: one is there,
// so something was changed.
//
// Order      It is read empty before anything is examined: a change that comes later leaves a message,
//            for which systemd starts the program again. Read empty it must be, or that never ends.
// Overrun    Is switched off on the socket for good (NETLINK_NO_ENOBUFS): systemd gives a socket up that
//            it finds in error. Messages that do not fit are lost, those before them wake up all the same.
// Ownership  The descriptor is ours and is closed; systemd keeps its own.
// Errors     kKernel if it cannot be read.
// Source     sd_listen_fds(3), systemd.socket(5): ListenNetlink=; netlink(7).
#pragma once

#include <chrono>

#include "base/fd.h"

namespace nomad_bridge::netlink {

// Changes come in bursts: a firewall that is reloaded, an ADD and what follows it.
constexpr std::chrono::milliseconds kQuiet{200};
constexpr std::chrono::milliseconds kLongestBurst{1000};

// Owns nothing if none was handed to this process.
[[nodiscard]] UniqueFd TakeChangeSocket();

// Reads until nothing has come for `kQuiet`, but no longer than `kLongestBurst`.
void AwaitQuiet(const UniqueFd& socket);

}  // namespace nomad_bridge::netlink
