// What can be seen on the node without sending anything: links, addresses, settings, routes and
// neighbours on the way to an allocation.
//
// Errors   kKernel
#pragma once

#include <optional>
#include <string>

#include "plugin/causes/cause.h"
#include "plugin/causes/connection.h"
#include "plugin/causes/node_facts.h"

namespace nomad_bridge::causes {

// Of a published port: conntrack's room, the published address, the uplink, and forwarding.
// `connection`: to it; nullopt: the node has no way for one.
[[nodiscard]] Causes FindOnNode(NodeFacts& facts,
                                const state::Record& record,
                                const portmap::DnatEntry& port,
                                const std::optional<Connection>& connection);

// Between the node and `address`, the allocation's: the route, the neighbour and the bridge's port.
[[nodiscard]] Causes FindToContainer(NodeFacts& facts,
                                     const state::Record& record,
                                     const Ip& address);

// What anyone beyond lacks to reach a published port, or to be answered: the node's address of that
// family, or its default route. Meant on a node that has only the other family.
[[nodiscard]] std::optional<std::string> FindNoWayBeyond(NodeFacts& facts,
                                                         const portmap::DnatEntry& port);
// Not meant: the node had a default route when the port was published. FindOnNode() says so.
[[nodiscard]] bool HasLostDefaultRoute(NodeFacts& facts,
                                       const state::Record& record,
                                       Family family);

// The bridge does not let frames pass by the allocation's port.
[[nodiscard]] Causes FindHeldPort(NodeFacts& facts, const state::Record& record);
// The bridge takes the container's MAC for its own, or has it at another port than `veth`.
[[nodiscard]] Causes FindWrongPort(NodeFacts& facts,
                                   const state::Record& record,
                                   const rtnl::Link& veth);
// Nothing leaves by `link`: its queue loses all. `prefix`: of the fix's command.
[[nodiscard]] Causes FindBlackhole(rtnl::Socket& net,
                                   const rtnl::Link& link,
                                   const std::string& prefix = "");

// Why `way` leads to no `link`, in words: "there is no route", "a route is a blackhole".
[[nodiscard]] std::string ErrorText(const rtnl::RouteAnswer& way);

}  // namespace nomad_bridge::causes
