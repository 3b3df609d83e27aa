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
#include "plugin/state/host.h"

namespace nomad_bridge::attachment {

// Of all attachments that have a host veth of ours; one that cannot be told is none to repair. One
// that a command works on is left out.
void CheckLostRecords(state::Host& host, Mismatches& mismatches);

}  // namespace nomad_bridge::attachment
