// The record of a running attachment whose file is lost or damaged, as the kernel and its leases
// tell it.
//
// Told      identity and labels by the alias of its host veth; bridge, gateways and port flags by
//           the links; addresses by its interface, where its leases have them; rules and ports by
//           its elements.
// Untold    its age, labels that no alias has, the ranges of its network, mtu, forceAddress,
//           promiscMode and firewalldZone.
// Left out  what would be guessed: an attachment without a lease of its own (another IPAM plugin
//           knows of it), behind a gateway that is not its bridge, or whose elements are not all
//           there.
// Errors    kKernel, kIo
// Locks     The attachment's is tried, then the leases' is taken.
#pragma once

#include "base/mismatch.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/state/host.h"

namespace nomad_bridge::attachment {

// Of the attachment whose host veth `link` is; one that cannot be told is none to repair. Nothing
// of another link, or if a command works on it or its record can be read.
void CheckLostRecord(state::Host& host, const rtnl::Link& link, Mismatches& mismatches);

}  // namespace nomad_bridge::attachment
