// The link of an attachment: the bridge, the veth pair, and the guest's end of it.
//
// Shared   The bridge, its addresses and the forwarding sysctls belong to every attachment: made or
//          put right, never undone.
// Errors   kConflict if a link or an address is somebody else's; kInvalidConfig if the bridge's
//          name is no bridge.
#pragma once

#include <vector>

#include "netlink/rtnl.h"
#include "plugin/config.h"
#include "plugin/guest.h"
#include "plugin/host.h"
#include "plugin/record.h"

namespace nomad_bridge {

// The bridge, and the node's own place on it: the bridge itself, or the gateway of a VLAN.
struct Segment {
  Link bridge;
  Link gate;
};

// Makes or adopts the bridge and, in a VLAN with a gateway, the gate; both up. The gate has
// `gateways` as its addresses (none if the network is no gateway), and forwarding is turned on for
// their families. Other IPv4 addresses and overlapping IPv6 ones are an error, or removed with
// forceAddress; those which another living attachment on the same bridge needs stay. Says on stderr
// what was mended: what was not so although an attachment other than `except` is there that needs it.
[[nodiscard]] Segment EnsureBridge(Host& host,
                                   const LinkConfig& config,
                                   const std::vector<Cidr>& gateways,
                                   const Attachment& except);

// The host end of `who`, if it is there and ours by its alias, or by `recorded`: a record names it.
[[nodiscard]] std::optional<Link> FindHostVeth(Rtnl& host, const Attachment& who, bool recorded);

// Throws kConflict if the guest has an interface of that name which is not the other end of our
// pair.
void RefuseForeignInterface(Host& host, Guest& guest, const Attachment& who, bool recorded);

// Deletes the pair from the host's end; needs no guest namespace. Absent is success.
void EnsureLinkGone(Host& host, const Attachment& who, bool recorded);

struct VethPair {
  Link host;
  Link guest;
};

// Makes the pair of `record`, down: the host end in `bridge`, the guest end in its namespace.
void CreateVeth(Host& host, Guest& guest, const Link& bridge, const Record& record, int mtu);

// The host end of that pair becomes the port that `record` says: flags, label, up. The guest end
// stays down.
[[nodiscard]] VethPair PlugIn(Host& host, Guest& guest, const Record& record);

// Addresses, up, routes, as `result` says them for the interface of `link`; waits until the pair and
// the bridge carry packets and, with enabledad, until the addresses are known to be nobody else's.
// With disableContainerInterface the interface stays down, and there is nothing to wait for.
void ConfigureGuest(Host& host,
                    Guest& guest,
                    const VethPair& veth,
                    const Result& result,
                    const LinkConfig& config);

// lo up, with the addresses the kernel gives it then.
void BringUpLoopback(Guest& guest);

}  // namespace nomad_bridge
