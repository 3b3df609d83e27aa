// Whether the node sends what is for a network's addresses to its gateway, or out of another link.
//
// Taken    A route of the main table out of another link takes addresses of a gateway's subnet, if
//          it is as specific as the gateway's own, or more, and leads to the gateway or to what the
//          network gives out. A wider route takes none. Nor does a route of policy routing or of a
//          VRF, or a route without a link (blackhole).
// Errors   kKernel
#pragma once

#include <optional>

#include "base/mismatch.h"
#include "base/route.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/state/checkpoint.h"
#include "plugin/state/record.h"

namespace nomad_bridge::link {

[[nodiscard]] bool Takes(const Route& route, const Cidr& gateway, const state::Record& record);

// What frees the subnet that `taker` takes, if it is a bridge of ours without a port: its network's
// config may name another bridge by now.
[[nodiscard]] std::optional<Fix> FindFixForIdle(rtnl::Socket& net, const rtnl::Link& taker);

// A link that takes more than single addresses from `gateway` of `record`, which is about to be set
// up: its allocations, or those behind that link, would not be reached. `known` names the network
// behind that link. One dump of the routes.
[[nodiscard]] std::optional<Mismatch> FindTaker(rtnl::Socket& net,
                                                const state::Checkpoint& known,
                                                const state::Record& record,
                                                const Cidr& gateway);

}  // namespace nomad_bridge::link
