// The bridge of a network and the node's own place on it.
//
// Shared   The bridge, its addresses and the forwarding sysctls belong to every attachment: created
//          or repaired, never undone.
// Errors   kConflict if a link or an address is somebody else's; kInvalidConfig if the link of the
//          bridge's name is no bridge, or one without the VLAN filtering that the config needs;
//          kKernel.
#pragma once

#include <optional>

#include "base/mismatch.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::link {

// The bridge of `record` and, in a VLAN with a gateway, the gateway's link: there, and up. The
// gateway has link.gateways as its addresses (none if the network is no gateway), and the node
// forwards for their families. Where one of them is missing, other IPv4 addresses and overlapping
// IPv6 ones are an error, or removed as forceAddress says; those of another network of ours
// stay. A missing bridge is made, unless it is adopted, or is there under another name and has the
// gateway's address still. Returns the bridge; nullopt if it is missing.
std::optional<rtnl::Link> CheckBridge(state::Host& host,
                                      const state::Record& record,
                                      Mismatches& mismatches);

// Recognised by the MAC we give it.
[[nodiscard]] bool IsMadeByUs(const rtnl::Link& bridge);

// Whether we made it, and it has no uplink: nobody but our attachments is on it.
[[nodiscard]] bool IsOursAlone(rtnl::Socket& net, const rtnl::Link& bridge);

// Whether what passes between its ports passes the chains of IP, too: by its own setting, or by
// br_netfilter's for all bridges.
[[nodiscard]] bool PassesIpChains(const rtnl::Link& bridge, Family family);

// Whether the bridge of `record`, which is about to be written, is adopted: strangers may be on it,
// as it is there and not ours alone. This is decided for the first attachment on a bridge and never
// revised: as long as one lives there, others of its network take its answer.
[[nodiscard]] bool IsAdopted(state::Host& host, const state::Record& record);

// The bridge, and the node's own place on it: the bridge itself, or the gateway of a VLAN.
struct BridgeAndGateway {
  rtnl::Link bridge;
  rtnl::Link gateway;
};

// After CheckBridge() has repaired: both are there.
[[nodiscard]] BridgeAndGateway RequireBridgeAndGateway(state::Host& host,
                                                       const config::LinkSpec& link);

}  // namespace nomad_bridge::link
