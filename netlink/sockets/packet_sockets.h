// Packet sockets, which take frames past the IP stack of their namespace: those of gVisor's runsc,
// of virtual machines, of tcpdump.
//
// Kernel  Without AF_PACKET there are none, and that is no error.
// Source  packet(7), net/packet/af_packet.c for /proc/net/packet.
#pragma once

#include <cstdint>
#include <optional>

#include "netlink/core/netns.h"

namespace nomad_bridge::sockets {

// The inode of a socket in `ns` that reads every frame of the link with that index; nullopt if
// there is none. A socket that reads all links, or one protocol alone, is not meant.
[[nodiscard]] std::optional<std::uint32_t> FindPacketSocket(const netlink::Netns& ns, int link);

}  // namespace nomad_bridge::sockets
