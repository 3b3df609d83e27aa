// When a port is published, warns on stderr of three things that an operator may not expect. They
// are no errors: an address may come later, and podman itself listens on the ports that it
// publishes.
//
//   - The node does not have the host address, so the port does not answer.
//   - A process of the node listens on the port, but gets no packets there any more.
//   - The node does not forward: forwarding is turned on only for bridges with a gateway of ours.
//
// Cost    One request per host address; two lists of sockets per protocol (netlink/sockets).
// Errors  kKernel.
// Locks   None.
#pragma once

#include <string>
#include <vector>

#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

void WarnOfPorts(state::Host& host, const state::Record& record);

// Returns the second warning, one line per protocol and port: "host port tcp 8080 is also used by
// the node: ...".
[[nodiscard]] std::vector<std::string> FindOwnListeners(state::Host& host,
                                                        const state::Record& record);

// Returns the third warning, for each family whose packets the node does not forward. Returns none
// for an attachment behind a gateway of ours, because we turn the settings on there.
[[nodiscard]] FindingList FindForwardingOff(state::Host& host, const state::Record& record);

}  // namespace nomad_bridge::rules
