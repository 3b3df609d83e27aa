// The bridge of a network and the node's own interface on the bridge.
//
// Shared   All attachments share the bridge, its addresses and the forwarding sysctls. They are
//          created or repaired, and never undone.
// Errors   kConflict if a link or an address belongs to somebody else; kInvalidConfig if the link
//          of the bridge's name is no bridge, or has no VLAN filtering although the config needs
//          it; kKernel.
#pragma once

#include <optional>

#include "base/finding.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::link {

// Checks the bridge of `record` and, in a VLAN with a gateway, the gateway's link: they exist and
// are up, the gateway has the addresses link.gateways (none without isGateway), and the node
// forwards for their families. If an address is missing, other IPv4 addresses and overlapping IPv6
// addresses are an error, or are removed, as forceAddress says. Addresses of another network of
// ours stay. Creates a missing bridge, unless FindObstacle() names an obstacle.
struct CheckedBridge {
  std::optional<rtnl::Link> link;  // nullopt: it is missing
  bool is_new = false;             // it was missing, and this call has created it
};
CheckedBridge CheckBridge(state::Host& host, const state::Record& record, Findings& findings);

// Returns why the missing bridge of `record` must not be created: we did not make it, or it would
// lead nowhere (makes_bridge), or it exists under another name and still has the gateway's address,
// or another link takes its subnet. Returns nullopt if there is no obstacle.
[[nodiscard]] std::optional<Finding> FindObstacle(state::Host& host, const state::Record& record);

// Returns whether we created the bridge. Its MAC shows this: the MAC is derived from its name.
[[nodiscard]] bool IsMadeByUs(const rtnl::Link& bridge);

// Returns whether we created the bridge and it has no uplink: only our attachments are on it.
[[nodiscard]] bool IsOursAlone(rtnl::Socket& net, const rtnl::Link& bridge);

// Returns whether packets between the bridge's ports also pass the IP chains: because of the
// bridge's own setting, or because of br_netfilter's setting for all bridges.
[[nodiscard]] bool PassesIpChains(const rtnl::Link& bridge, Family family);

// Completes `record`, which is about to be written: its bridge is adopted if it exists and is not
// ours alone, so that it may connect strangers. While an attachment lives on the bridge, later
// attachments of its network get the same answer as that attachment. If the config has an
// alternative name of the bridge, `record` gets its name.
void DescribeBridge(state::Host& host, state::Record& record);

// The bridge, and the node's own interface on it: the bridge itself, or the gateway of a VLAN.
struct BridgeAndGateway {
  rtnl::Link bridge;
  rtnl::Link gateway;
};

// Returns both links. Call it after CheckBridge() in mode kRepair, which makes sure that both
// exist.
[[nodiscard]] BridgeAndGateway RequireBridgeAndGateway(state::Host& host,
                                                       const config::LinkSpec& link);

}  // namespace nomad_bridge::link
