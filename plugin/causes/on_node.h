// Finds what can be seen on the node without sending anything: links, addresses, settings, routes
// and neighbours on the way to an allocation.
//
// Errors   kKernel
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/finding.h"
#include "base/fix.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/causes/connection.h"
#include "plugin/causes/node_facts.h"

namespace nomad_bridge::causes {

// Checks what a published port needs: room in conntrack, the published address, the uplink, and
// forwarding. `connection` leads to the port; nullopt if the node has no route for a connection.
[[nodiscard]] FindingList FindOnNode(NodeFacts& facts,
                                     const state::Record& record,
                                     const portmap::DnatEntry& port,
                                     const std::optional<Connection>& connection);

// Checks the way between the node and `address` of the allocation: route, neighbour and bridge
// port. `packet` is the query for the route of a packet that did not arrive; without it, packets
// of the node and from each uplink are asked for.
[[nodiscard]] FindingList FindToContainer(
    NodeFacts& facts,
    const state::Record& record,
    const Ip& address,
    const std::optional<rtnl::RouteQuery>& packet = std::nullopt);
// Finds a routing rule that leads such packets out of another link than the network's.
[[nodiscard]] FindingList FindDetourByRule(
    NodeFacts& facts,
    const state::Record& record,
    const Ip& address,
    const std::optional<rtnl::RouteQuery>& packet = std::nullopt);

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
[[nodiscard]] FindingList FindHeldPort(NodeFacts& facts, const state::Record& record);
// Finds a bridge that takes the container's MAC for its own, or whose table has the MAC at another
// port than `veth`.
[[nodiscard]] FindingList FindWrongPort(NodeFacts& facts,
                                        const state::Record& record,
                                        const rtnl::Link& veth);
// Finds a queue of the link that drops all packets. `prefix` is put before the command of the fix.
[[nodiscard]] FindingList FindBlackhole(rtnl::Socket& net,
                                        const rtnl::Link& link,
                                        const std::string& prefix = "");

// Finds XDP programs that packets of a client beyond the node meet before anything that a probe
// meets.
[[nodiscard]] FindingList FindXdp(NodeFacts& facts, const Connection& connection);

// Returns whether rp_filter is strict for the link. The greater of the link's own setting and the
// setting for all links counts: 1 is strict, 2 is loose.
[[nodiscard]] bool IsReversePathStrict(std::string_view ifname);
[[nodiscard]] Fix LoosenReversePath(std::string_view ifname);

// Returns whether rp_filter caused `answer`, to a query about packets that come by `link` from
// `source`.
[[nodiscard]] bool IsByReversePath(rtnl::Socket& net,
                                   const rtnl::RouteAnswer& answer,
                                   const rtnl::Link& link,
                                   const Ip& source);

// Returns the cause: packets through `link` from `source` are dropped. `source` is a text for
// people.
[[nodiscard]] Finding StrictReversePath(const rtnl::Link& link, const std::string& source);

// Returns whether this machine has dropped such a packet since it started.
[[nodiscard]] bool HasReversePathDropped();

struct ConntrackRoom {
  long used = 0;
  long most = 0;  // 0: this kernel has no conntrack

  [[nodiscard]] bool IsFull() const { return most != 0 && used >= most; }
  [[nodiscard]] Fix Enlarge() const;
};

[[nodiscard]] ConntrackRoom FindConntrackRoom();

}  // namespace nomad_bridge::causes
