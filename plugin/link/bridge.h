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

// The bridge of `record` and, in a VLAN with a gateway, the gateway's link: there, and up. One
// that is its operator's is not made. The gateway has link.gateways as its addresses (none if the
// network is no gateway), and the node forwards for their families. Where one of them is missing,
// other IPv4 addresses and overlapping IPv6 ones are an error, or removed as forceAddress says;
// those that another live attachment needs stay. Returns the bridge; nullopt if it is missing,
// and is not to be made.
std::optional<rtnl::Link> CheckBridge(state::Host& host,
                                      const state::Record& record,
                                      Mismatches& mismatches);

// Recognised by the MAC we give it.
[[nodiscard]] bool IsMadeByUs(const rtnl::Link& bridge);

// Whether what passes between its ports passes the chains of IP, too: by its own setting, or by
// br_netfilter's for all bridges.
[[nodiscard]] bool PassesIpChains(const rtnl::Link& bridge, Family family);

// As the checkpoint has it.
[[nodiscard]] state::Checkpoint::Bridge KnownBridge(state::Host& host, const std::string& name);

// Whether `known` is about this very bridge, and not one of its name before, or what an earlier
// release noted.
[[nodiscard]] bool IsAbout(const state::Checkpoint::Bridge& known, const rtnl::Link& bridge);

// Whether the bridge is there and was made by somebody else, or has an uplink: the node's own to
// its LAN, perhaps. One of ours without an uplink when it was last noted is not asked again.
[[nodiscard]] bool IsAdopted(state::Host& host, const std::string& bridge);

// Whether we made it, by the checkpoint, and its MAC was changed since. With an uplink it may have
// one from its operator.
[[nodiscard]] bool HasLostMac(state::Host& host, const rtnl::Link& bridge);

// The bridge, and the node's own place on it: the bridge itself, or the gateway of a VLAN.
struct Segment {
  rtnl::Link bridge;
  rtnl::Link gateway;
};

// After CheckBridge() has repaired: both are there.
[[nodiscard]] Segment RequireSegment(state::Host& host, const config::LinkSpec& link);

// Whether an attachment with a host veth has used the bridge or gateway of this name. Reads all
// records.
[[nodiscard]] bool IsInUse(state::Host& host, const std::string& ifname);

}  // namespace nomad_bridge::link
