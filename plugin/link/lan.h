// What a bridge that is its operator's had, and has lost: its uplinks, and the node's own addresses
// on his LAN. Nothing of it is ours to put right.
//
// Source   the checkpoint: what a reconcile, or the first ADD on the bridge, has seen there last
// Errors   kKernel
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/mismatch.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/link/idle_link.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::link {

// `known` with what `bridge` has now, `uplinks` among it. What one that is not known by our MAC has
// lost stays: an uplink until it is another bridge's or there is another, an address until there is
// another of its family. The tap of a virtual machine, which may stop, is no uplink here, and a
// gateway of our networks no address of the node's. With an uplink it is its operator's, also one
// that we made.
[[nodiscard]] state::Checkpoint::Bridge Observe(state::Host& host,
                                                const rtnl::Link& bridge,
                                                state::Checkpoint::Bridge known,
                                                std::set<std::string> uplinks);

// Whether the bridge that `record` is behind, which is missing, is its operator's to make again:
// live attachments are behind it, it was his, and it led beyond the node, or its network has no
// gateway of ours. Any other is made anew with all that it had.
[[nodiscard]] bool IsMissingBridgeOperators(state::Host& host, const state::Record& record);

[[nodiscard]] std::vector<Mismatch> FindLostUplinks(state::Host& host, const std::string& bridge);

// Ports of an operator's bridge that lead beyond the node, but carry nothing; none if there is one
// that does. "'eth0', the way of bridge 'lan' to its LAN, is down"
[[nodiscard]] std::vector<IdleLink> FindIdleUplinks(state::Host& host, const std::string& bridge);
// The same of any bridge.
[[nodiscard]] std::vector<IdleLink> FindIdlePorts(state::Host& host, const rtnl::Link& bridge);

// Of `uplinks`, its ports that lead beyond the node, those that have IPv4 addresses of the node,
// which are dark there; not of the only one, by which the node is reached at the bridge's address,
// nor what FindLostAddresses says.
[[nodiscard]] std::vector<Mismatch> FindDarkPorts(state::Host& host,
                                                  const rtnl::Link& bridge,
                                                  const std::set<std::string>& uplinks);
// Addresses that the bridge, an operator's, had; one that is on a port of it now is moved back.
[[nodiscard]] std::vector<Mismatch> FindLostAddresses(state::Host& host, const std::string& bridge);

}  // namespace nomad_bridge::link
