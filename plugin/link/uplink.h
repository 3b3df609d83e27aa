// What leads beyond the node: whether a bridge does, so that it is the node's own way to its LAN,
// what has a MAC on this side of it, and how large packets may be on the way out.
//
// Uplink  Any port but a container's host end: a veth whose other end is in another namespace, and
//         whose name begins with "veth", or with "vb-", as systemd-nspawn has it. (In a node that
//         is a container itself an uplink is such a veth, too, but not of those names.)
// Costs   One dump of all bridge ports, and a round trip for each that has no name as runtimes
//         generate it.
// Errors  kKernel.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "netlink/rtnl/rtnl.h"
#include "plugin/state/record.h"

namespace nomad_bridge::link {

[[nodiscard]] bool HasUplink(rtnl::Socket& net, const rtnl::Link& bridge);
// Nothing beyond `bridge` is reached from its ports: it has neither an uplink nor an address of the
// node. Not for a bridge with a gateway in a VLAN, whose addresses are on a link of its own.
[[nodiscard]] bool IsIsland(rtnl::Socket& net, const std::string& bridge);
// What people are told of such a bridge.
[[nodiscard]] std::string DescribeIsland(const std::string& bridge);
// Without a dump: of `links`, all of the node.
[[nodiscard]] std::set<std::string> FindUplinks(const std::vector<rtnl::Link>& links,
                                                const rtnl::Link& bridge);

// What has `mac` on the bridge already, as a person names it: the bridge, a port, or what has sent
// from behind the port of a container or of a virtual machine. Not what is beyond an uplink: an
// allocation whose MAC is fixed may have come from there. One dump of all FDB entries.
[[nodiscard]] std::optional<std::string> FindMacHolder(rtnl::Socket& net,
                                                       const std::string& bridge_name,
                                                       const Mac& mac);

// Of `links`, all of the node, those by which it is reached: those outside every bridge, and
// bridges with an uplink, which are operational by that alone.
[[nodiscard]] std::vector<rtnl::Link> Uplinks(std::vector<rtnl::Link> links);

// An address beyond every node, so that the route to it is the default one: a list of the routes
// would grow with them, and the kernel takes a query for 0.0.0.0 to mean itself.
[[nodiscard]] Ip Beyond(Family family);

// A round trip for each family.
[[nodiscard]] state::Record::DefaultRoutes FindDefaultRoutes(rtnl::Socket& net);

// The MTU in bytes that `wanted`, a config's, stands for; 0 for the kernel's default. For
// kUplinkMtu it is that of the interface by which packets leave the node, the lesser one if IPv4
// and IPv6 leave by two; 0 if the node has no default route. Costs two round trips then, and one
// per such interface.
[[nodiscard]] int MtuOf(rtnl::Socket& net, int wanted);

}  // namespace nomad_bridge::link
