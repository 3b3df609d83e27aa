// Whether a bridge leads beyond the node, so that it is the node's own way to its LAN.
//
// Uplink  Any port but a container's host end: a veth whose other end is in another namespace, and
//         whose name begins with "veth", as every runtime names it. (In a node that is a container
//         itself an uplink is such a veth, too, but not of that name.)
// Costs   One dump of all bridge ports, and a round trip for each that may be a container's: for
//         what is rare.
// Errors  kKernel.
#pragma once

#include "netlink/rtnl/rtnl.h"

namespace nomad_bridge::link {

[[nodiscard]] bool HasUplink(rtnl::Socket& net, const rtnl::Link& bridge);

}  // namespace nomad_bridge::link
