// The socket on which systemd waits for changes of nf_tables. systemd hands it to the program that
// it then starts (packaging/systemd/nomad-bridge-reconcile.socket).
//
// Order      Read all messages before examining anything: a later change leaves a new message, and
//            systemd starts the program again. If messages stay unread, systemd starts the program
//            again and again.
// Overrun    NETLINK_NO_ENOBUFS switches overrun errors off on the socket for good, because systemd
//            gives up a socket with an error. Messages that do not fit are lost. That does no harm:
//            the messages before them have already started the program.
// Ownership  The descriptor is ours and is closed; systemd keeps its own.
// Errors     kKernel if the socket cannot be read.
// Source     sd_listen_fds(3), systemd.socket(5): ListenNetlink=; netlink(7).
#pragma once

#include <chrono>

#include "base/fd.h"

namespace nomad_bridge::nft {

// Changes come in bursts, for example when a firewall is reloaded.
constexpr std::chrono::milliseconds kQuiet{200};
constexpr std::chrono::milliseconds kMaxBurst{1000};

// Returns an empty UniqueFd if systemd handed no such socket to this process.
[[nodiscard]] UniqueFd TakeChangeSocket();

// Reads until nothing has come for `kQuiet`, but no longer than `kMaxBurst`. Returns whether there
// was any message: systemd also hands the socket to a program that a timer has started.
[[nodiscard]] bool DrainChanges(const UniqueFd& socket);

}  // namespace nomad_bridge::nft
