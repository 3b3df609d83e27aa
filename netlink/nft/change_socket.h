// The socket on which systemd waits for changes of nf_tables, handed to the program that it starts
// (packaging/systemd/nomad-bridge-reconcile.socket).
//
// Order      It is read empty before anything is examined: a change that comes later leaves a
//            message, for which systemd starts the program again. Read empty it must be, or that
//            never ends.
// Overrun    Is switched off on the socket for good (NETLINK_NO_ENOBUFS): systemd gives a socket up
//            that it finds in error. Messages that do not fit are lost, those before them wake up
//            all the same.
// Ownership  The descriptor is ours and is closed; systemd keeps its own.
// Errors     kKernel if it cannot be read.
// Source     sd_listen_fds(3), systemd.socket(5): ListenNetlink=; netlink(7);
//            linux/netfilter/nf_tables.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "base/fd.h"

namespace nomad_bridge::nft {

// Changes come in bursts: a firewall that is reloaded, an ADD and what follows it.
constexpr std::chrono::milliseconds kQuiet{200};
constexpr std::chrono::milliseconds kMaxBurst{1000};

// What the messages that were read tell of.
struct Changes {
  std::set<std::string> tables;  // in which something was changed, by name: of whatever family
  std::optional<std::uint32_t> first_generation;  // that the earliest of the changes has made
  std::optional<std::uint32_t> last_generation;   // and the latest
  // False if a message was lost, now or at any time since systemd made the socket.
  bool are_complete = true;
};

// Owns nothing if none was handed to this process.
[[nodiscard]] UniqueFd TakeChangeSocket();

// Reads until nothing has come for `kQuiet`, but no longer than `kMaxBurst`.
[[nodiscard]] Changes ReadChanges(const UniqueFd& socket);

}  // namespace nomad_bridge::nft
