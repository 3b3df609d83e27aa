// The guest's side: its namespace, and whether it still is what ADD made it. It belongs to the
// guest: we only look.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "netlink/netns.h"
#include "netlink/rtnl.h"
#include "plugin/host.h"
#include "plugin/request.h"
#include "plugin/result.h"

namespace nomad_bridge {

// The guest's namespace and a socket in it. Opened once per command.
struct Guest {
  Netns netns;
  Rtnl net;
};

// Opens CNI_NETNS. Throws kInvalidNetns if it is the host's own (unless CNI_NETNS_OVERRIDE),
// kInvalidEnvironment if it is no network namespace.
[[nodiscard]] Guest OpenGuest(const Request& request, const Host& host);

// The same where the namespace may be out of sight or gone.
[[nodiscard]] std::optional<Guest> FindGuest(const Request& request, const Host& host);

// Every way in which the guest's interface differs from what `expected` (a prevResult, which may
// hold more than ours) says of it, one phrase each: link, MAC, state (unless it `stays_down`),
// addresses, routes.
[[nodiscard]] std::vector<std::string> Differences(Guest& guest,
                                                   const Request& request,
                                                   const Result& expected,
                                                   bool stays_down);

// The same for lo, which only has to be up.
[[nodiscard]] std::vector<std::string> LoopbackDifferences(Guest& guest);

// The addresses that `result` says the guest's interface has: those of CNI_IFNAME in CNI_NETNS, and
// those that name no interface.
[[nodiscard]] std::vector<Cidr> AddressesIn(const Result& result, const Request& request);

}  // namespace nomad_bridge
