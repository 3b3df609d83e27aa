// What an operator may not expect of a published port: said on stderr, by name, when it is
// published. No error: an address may come later, and podman itself listens on the ports that it
// publishes.
//
//   - The node does not have the host address, so the port does not answer.
//   - The node itself listens on the port, and gets nothing there any more.
//   - The node forwards nothing: it does so for bridges with a gateway of ours alone.
//
// Cost    one question per host address; two lists of sockets per protocol (netlink/sockets).
// Errors  kKernel.
// Locks   none.
#pragma once

#include <string>
#include <vector>

#include "plugin/state/host.h"
#include "plugin/state/record.h"

namespace nomad_bridge::rules {

void WarnOfPorts(state::Host& host, const state::Record& record);

// The second of them, one line per protocol and port: "host port tcp 8080 is also used by the node:
// ...".
[[nodiscard]] std::vector<std::string> FindOwnListeners(state::Host& host,
                                                        const state::Record& record);

// The third: "net/ipv4/ip_forward", and that for IPv6. None behind a gateway of ours, for which
// they are turned on.
[[nodiscard]] std::vector<std::string> FindForwardingOff(state::Host& host,
                                                         const state::Record& record);

}  // namespace nomad_bridge::rules
