// Finds what can be seen on the node without sending anything: links, addresses, settings, routes
// and neighbours on the way to an allocation.
//
// Errors   kKernel
#pragma once

#include <optional>
#include <string>

#include "plugin/causes/cause.h"
#include "plugin/causes/connection.h"
#include "plugin/causes/node_facts.h"

namespace nomad_bridge::causes {

// Checks what a published port needs: room in conntrack, the published address, the uplink, and
// forwarding. `connection` leads to the port; nullopt if the node has no route for a connection.
[[nodiscard]] Causes FindOnNode(NodeFacts& facts,
                                const state::Record& record,
                                const portmap::DnatEntry& port,
                                const std::optional<Connection>& connection);

// Checks the way between the node and `address` of the allocation: route, neighbour and bridge
// port.
[[nodiscard]] Causes FindToContainer(NodeFacts& facts,
                                     const state::Record& record,
                                     const Ip& address);

// Returns what the node lacks so that anyone beyond it can reach a published port and get answers:
// an address of that family, or a default route. This is intended on a node that has only the other
// family.
[[nodiscard]] std::optional<std::string> FindNoWayBeyond(NodeFacts& facts,
                                                         const portmap::DnatEntry& port);
// Returns whether the node has lost a default route that it had when the port was published: this
// is not intended. FindOnNode() reports it.
[[nodiscard]] bool HasLostDefaultRoute(NodeFacts& facts,
                                       const state::Record& record,
                                       Family family);

// Finds a bridge that lets no frames pass through the allocation's port.
[[nodiscard]] Causes FindHeldPort(NodeFacts& facts, const state::Record& record);
// Finds a bridge that takes the container's MAC for its own, or whose table has the MAC at another
// port than `veth`.
[[nodiscard]] Causes FindWrongPort(NodeFacts& facts,
                                   const state::Record& record,
                                   const rtnl::Link& veth);
// Finds a queue of the link that drops all packets. `prefix` is put before the command of the fix.
[[nodiscard]] Causes FindBlackhole(rtnl::Socket& net,
                                   const rtnl::Link& link,
                                   const std::string& prefix = "");

// Returns in words why the route `way` leads to no link: "there is no route", "a route is a
// blackhole".
[[nodiscard]] std::string ErrorText(const rtnl::RouteAnswer& way);

}  // namespace nomad_bridge::causes
