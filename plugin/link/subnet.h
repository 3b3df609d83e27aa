// Finds out whether the node sends packets for a network's addresses to the network's gateway, or
// out of another link.
//
// Taken    Another link takes addresses from a gateway's subnet if the main table has a route
//          through that link that is at least as specific as the gateway's own route, and that
//          covers the gateway or addresses that the network assigns. A wider route takes none. Nor
//          does a route of policy routing or of a VRF, or a route without a link (blackhole).
// Detour   All rules and routes count, but not in a VRF, which has its own.
// Errors   kKernel
#pragma once

#include <optional>

#include "base/finding.h"
#include "base/route.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/state/record.h"

namespace nomad_bridge::link {

[[nodiscard]] bool TakesAddressesOf(const Route& route,
                                    const Cidr& gateway,
                                    const state::Record& record);

// Returns how to free the subnet, if `taker` is a bridge of ours without a port. A bridge is left
// over like this if its network's config now names another bridge.
[[nodiscard]] std::optional<Fix> FindFixForIdle(rtnl::Socket& net, const rtnl::Link& taker);

// Returns a finding if a link takes addresses from the subnet of `gateway`; ignores routes for
// single addresses. `record`, which has that gateway, is about to be set up: either the network's
// allocations or the hosts behind that link would be unreachable.
//
// Does not list the routes, of which a router has hundreds of thousands. Looks up the routes to the
// gateway, to both ends of each range, and to the subnets of the node's own addresses, which it
// lists. So it misses a static route to a part of the subnet that has none of these addresses, and
// routes that are hidden by a routing rule or by a better route to the same subnet. FindDetour()
// finds the first two once an allocation gets such an address. `doctor` lists all routes.
[[nodiscard]] std::optional<Finding> FindTaker(rtnl::Socket& net,
                                               const state::Record& record,
                                               const Cidr& gateway);

// Returns why packets of `query` do not leave by `gateway`, the gateway of `record`; nullopt if
// they do. The query's destination is an address of that attachment. Asks the kernel, which looks
// at all rules and routes. If somebody has deleted the route that came with the gateway's address,
// the finding can be repaired: rtnl::Socket::EnsureConnectedRoute(). Costs a round trip, and up to
// four more if there is a finding.
[[nodiscard]] std::optional<Finding> FindDetour(rtnl::Socket& net,
                                                const state::Record& record,
                                                const rtnl::Link& gateway,
                                                const rtnl::RouteQuery& query);

}  // namespace nomad_bridge::link
