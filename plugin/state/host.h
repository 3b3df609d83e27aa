// The node's side: its network namespace, one socket of each kind in it, and our records.
//
// Lives    from the start of a command to its end; conntrack.h has why its socket is not closed
//          before.
// Errors   kKernel if the kernel lacks a kind of socket
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
  netlink::Netns netns;
  rtnl::Socket net;
  nft::Socket nft;
  Records records;
  CheckpointFile checkpoint;
  PolicyFile policy;
  // Opened when they are first needed.
  std::optional<conntrack::Conntrack> conntrack;
  std::optional<sockets::ListenerLists> listeners;
  std::optional<std::map<std::uint64_t, std::string>> namespaces;  // paths by inodes

  [[nodiscard]] static Host Open();
  // For who only looks: without nf_tables, what needs it fails later, and the rest does not.
  [[nodiscard]] static Host OpenToLook();

  // Opens conntrack's, too: the descriptors whose closing waits for what was removed from
  // nf_tables.
  [[nodiscard]] std::array<int, 2> NetfilterSockets();

  // The node's own, as they were when this command first asked for them.
  [[nodiscard]] const std::vector<sockets::Listener>& Listeners(sockets::Protocol protocol);

  // A path to the network namespace of this inode, if a process or a mount held it when this
  // command first asked for one.
  [[nodiscard]] std::optional<std::string> FindNetnsPath(std::uint64_t inode);
};

}  // namespace nomad_bridge::state
