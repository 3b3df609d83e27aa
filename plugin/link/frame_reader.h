// Finds who reads the frames of a container's interface instead of its namespace's IP stack.
//
// gVisor's runsc removes the addresses from the interface, and reads its frames through a packet
// socket. A virtual machine has a tap in the namespace: either tc filters redirect all frames
// between the interface and the tap (tc-redirect-tap for Firecracker, Kata Containers), or both are
// ports of one bridge (QEMU, KubeVirt). The sandbox or virtual machine itself then has the
// addresses, the MAC and the listeners, so the namespace does not show them.
//
// Cost     Some round trips; to find the process, all of /proc. Call it only if something seems
//          wrong.
// Errors   kKernel
#pragma once

#include <optional>
#include <string>

#include "netlink/core/netns.h"
#include "netlink/rtnl/rtnl.h"

namespace nomad_bridge::link {

// Returns "a packet socket of process 4711 'runsc-sandbox'" or "tap 'tap0'"; nullopt if the
// namespace's own IP stack reads the frames. `net` is a socket in `netns`.
[[nodiscard]] std::optional<std::string> FindFrameReader(const netlink::Netns& netns,
                                                         rtnl::Socket& net,
                                                         const rtnl::Link& link);

}  // namespace nomad_bridge::link
