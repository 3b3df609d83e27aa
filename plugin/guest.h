// The guest's side: its namespace, and whether it still is what ADD made it. It belongs to the
// guest: we only look.
#pragma once

#include <string>
#include <vector>

#include "netlink/netns.h"
#include "netlink/rtnl.h"
#include "plugin/host.h"
#include "plugin/request.h"
#include "plugin/result.h"

namespace nomad_bridge {

// Opens CNI_NETNS. Throws kInvalidNetns if it is the host's own (unless CNI_NETNS_OVERRIDE),
// kInvalidEnvironment if it is no network namespace.
[[nodiscard]] Netns OpenGuest(const Request& request, const Host& host);

// For DEL, where the namespace may have gone: only refuses the host's own.
void RefuseHostNamespace(const Request& request, const Host& host);

// Every way in which the guest's interface differs from what `expected` (a prevResult, which may
// hold more than ours) says of it, one phrase each: link, MAC, state, addresses, routes, lo.
[[nodiscard]] std::vector<std::string> Differences(Rtnl& guest,
                                                   const Request& request,
                                                   const Result& expected);

}  // namespace nomad_bridge
