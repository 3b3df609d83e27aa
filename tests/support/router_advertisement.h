// Sends a router advertisement (RFC 4861), as a router on the link of an interface does.
//
// Shape   The sender is a default router for half an hour. If `prefix` is given, hosts may
//         configure addresses in it; it has 64 bits.
// Errors  std::runtime_error if it cannot be sent.
#pragma once

#include "tests/support/node.h"

namespace nomad_bridge::test {

// Sends it to all nodes, from the link-local address of `ifname`. Returns false if `ifname` has
// none yet.
[[nodiscard]] bool AdvertiseRouter(const Node& from,
                                   const std::string& ifname,
                                   const std::string& prefix = "");

}  // namespace nomad_bridge::test
