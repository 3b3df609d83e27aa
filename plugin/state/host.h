// The host's side of attachments: the node's network namespace, one socket of each kind in it, and
// our records.
//
// Lives    from the start of a command to its end; conntrack.h says why its socket is not closed
//          earlier.
// Errors   kKernel if the kernel lacks a kind of socket.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "netlink/conntrack/conntrack.h"
#include "netlink/core/netns.h"
#include "netlink/nft/socket.h"
#include "netlink/rtnl/rtnl.h"
#include "netlink/sockets/listeners.h"
#include "plugin/state/policy_file.h"
#include "plugin/state/record_store.h"

namespace nomad_bridge::state {

struct Host {
  std::string boot;  // a short name of this boot: a hash of its id
  netlink::Netns netns;
  rtnl::Socket net;
  nft::Socket nft;
  Records records;
  PolicyFile policy;
  // These are opened when they are first needed.
  std::optional<conntrack::Conntrack> conntrack;
  std::optional<sockets::ListenerLists> listeners;
  std::optional<std::map<std::uint64_t, std::string>> namespaces;  // paths by inodes

  [[nodiscard]] static Host Open();
  // Opens the host for a command that only looks. Without nf_tables, only the functions that need
  // it fail, and they fail later.
  [[nodiscard]] static Host OpenToLook();

  // Opens conntrack's socket, too. Returns the descriptors whose closing waits for what was removed
  // from nf_tables.
  [[nodiscard]] std::array<int, 2> NetfilterSockets();

  // Returns the node's listening sockets, as they were at the first call.
  [[nodiscard]] const std::vector<sockets::Listener>& Listeners(Protocol protocol);

  // Returns a path to the network namespace with this inode, if a process or a mount held the
  // namespace at the first call.
  [[nodiscard]] std::optional<std::string> FindNetnsPath(std::uint64_t inode);
};

}  // namespace nomad_bridge::state
