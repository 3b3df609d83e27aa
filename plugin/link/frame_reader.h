// Who takes the frames of a container's interface instead of its namespace's IP stack.
//
// gVisor's runsc takes the addresses off the interface, and reads its frames by a packet socket. A
// virtual machine has a tap in the namespace: filters of tc redirect all frames between the
// interface and the tap (tc-redirect-tap for Firecracker, Kata Containers), or both are ports of
// one bridge (QEMU, KubeVirt). Either has the addresses, the MAC and the listeners itself, so what
// the namespace shows of them says nothing.
//
// Cost     Some round trips, and for the process all of /proc: for where something seems wrong.
// Errors   kKernel
#pragma once

#include <optional>
#include <string>

#include "netlink/core/netns.h"
#include "netlink/rtnl/rtnl.h"

namespace nomad_bridge::link {

// "a packet socket of process 4711 'runsc-sandbox'", "tap 'tap0'"; nullopt if the namespace has its
// frames itself. `net` is a socket in `netns`.
[[nodiscard]] std::optional<std::string> FindFrameReader(const netlink::Netns& netns,
                                                         rtnl::Socket& net,
                                                         const rtnl::Link& link);

}  // namespace nomad_bridge::link
