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

// For a published port: conntrack's room, the published address, the uplink, and forwarding.
// `connection`: to that port; nullopt: the node has no route for one.
[[nodiscard]] Causes FindOnNode(NodeFacts& facts,
                                const state::Record& record,
                                const portmap::DnatEntry& port,
                                const std::optional<Connection>& connection);

// Checks the way between the node and `address` of the allocation: route, neighbour and bridge
// port.
[[nodiscard]] Causes FindToContainer(NodeFacts& facts,
                                     const state::Record& record,
                                     const Ip& address);

// Returns what is missing so that anyone beyond can reach a published port and get answers: the
// node's address of that family, or its default route. Intended on a node that has only the other
// family.
[[nodiscard]] std::optional<std::string> FindNoWayBeyond(NodeFacts& facts,
                                                         const portmap::DnatEntry& port);
// Not intended: the node had a default route when the port was published. FindOnNode() reports it.
[[nodiscard]] bool HasLostDefaultRoute(NodeFacts& facts,
                                       const state::Record& record,
                                       Family family);

// Finds a bridge that lets no frames pass through the allocation's port.
[[nodiscard]] Causes FindHeldPort(NodeFacts& facts, const state::Record& record);
// Finds a bridge that takes the container's MAC for its own, or has it at another port than `veth`.
[[nodiscard]] Causes FindWrongPort(NodeFacts& facts,
                                   const state::Record& record,
                                   const rtnl::Link& veth);
// Finds a link that sends nothing: its queue drops all packets. `prefix`: of the fix's command.
[[nodiscard]] Causes FindBlackhole(rtnl::Socket& net,
                                   const rtnl::Link& link,
                                   const std::string& prefix = "");

// Returns why `way` leads to no `link`, in words: "there is no route", "a route is a blackhole".
[[nodiscard]] std::string ErrorText(const rtnl::RouteAnswer& way);

}  // namespace nomad_bridge::causes
