// Finds packet sockets. They receive frames without the IP stack of their namespace; gVisor's
// runsc, virtual machines and tcpdump use them.
//
// Kernel  Without AF_PACKET there are none, and that is no error.
// Source  packet(7), net/packet/af_packet.c for /proc/net/packet.
#pragma once

#include <cstdint>
#include <optional>

#include "netlink/core/netns.h"

namespace nomad_bridge::sockets {

// Returns the inode of a socket in `ns` that reads every frame of the link with that index; nullopt
// if there is none. Ignores sockets that read all links, or only one protocol.
[[nodiscard]] std::optional<std::uint32_t> FindPacketSocket(const netlink::Netns& ns, int link);

}  // namespace nomad_bridge::sockets
