// The container's side: its namespace, and whether it still is what ADD made it. It belongs to the
// container: we only look.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "netlink/core/netns.h"
#include "netlink/rtnl/rtnl.h"
#include "plugin/cni/request.h"
#include "plugin/cni/result.h"
#include "plugin/state/host.h"

namespace nomad_bridge::link {

// The container's namespace and a socket in it. Opened once per command.
struct Container {
  netlink::Netns netns;
  rtnl::Socket net;
};

// Opens CNI_NETNS. Throws kInvalidNetns if it is the host's own (unless CNI_NETNS_OVERRIDE),
// kInvalidEnvironment if it is no network namespace.
[[nodiscard]] Container OpenContainer(const cni::Request& request, const state::Host& host);

// The same where the namespace may be out of sight or gone.
[[nodiscard]] std::optional<Container> FindContainer(const cni::Request& request,
                                                     const state::Host& host);

// Every way in which the container's interface differs from what `expected` (a prevResult, which may
// hold more than ours) says of it, one phrase each: link, MAC, state (unless it `stays_down`),
// addresses, routes.
[[nodiscard]] std::vector<std::string> DiffContainer(Container& container,
                                                     const cni::Request& request,
                                                     const cni::Result& expected,
                                                     bool stays_down);

// The same for lo, which only has to be up.
[[nodiscard]] std::vector<std::string> DiffLoopback(Container& container);

// The addresses that `result` says the container's interface has: those of CNI_IFNAME in CNI_NETNS, and
// those that name no interface.
[[nodiscard]] std::vector<Cidr> AddressesIn(const cni::Result& result, const cni::Request& request);

}  // namespace nomad_bridge::link
