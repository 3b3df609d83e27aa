// The container's side: its namespace, and whether its interface is still as ADD configured it. The
// interface belongs to the container, so this code changes nothing.
//
// Errors   kInvalidNetns if CNI_NETNS is the host's own namespace (unless CNI_NETNS_OVERRIDE is
//          set); kInvalidEnvironment if CNI_NETNS is no network namespace; kKernel.
// Owns     A descriptor of the namespace and a socket in it, both opened once per command.
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

struct Container {
  netlink::Netns netns;
  rtnl::Socket net;
  netlink::NetnsId id;  // with the namespace's cookie
};

// Opens CNI_NETNS. `host` is the host's own namespace.
[[nodiscard]] Container OpenContainer(const cni::Request& request, const netlink::Netns& host);

// Like OpenContainer(), but returns nullopt if the namespace is gone, is not visible here, or has
// no path in the request; also if its path, which is the path in `record`, now leads to the host's
// own namespace.
[[nodiscard]] std::optional<Container> FindContainer(
    const cni::Request& request,
    const netlink::Netns& host,
    const std::optional<state::Record>& record = std::nullopt);

// The container's interface as it is now.
struct Inside {
  netlink::NetnsId netns;
  rtnl::Link link;
  std::vector<Cidr> addresses;  // without link-local addresses
};
// Returns nullopt if there is no such interface, or no path visible here leads to the namespace.
[[nodiscard]] std::optional<Inside> FindInside(const std::string& netns_path,
                                               const std::string& ifname);

// Returns why sourceCheck drops all that the container sends through `inside`, its interface;
// nullopt if it does not. A plugin that ran after us may have changed the MAC.
[[nodiscard]] std::optional<std::string> FindMacMismatch(const rtnl::Link& inside,
                                                         const state::Record& record);

// Whether the interface must be up. With disableContainerInterface ADD leaves it down.
enum class ExpectedState { kUp, kAny };

// Compares the container's interface with `expected`, a prevResult, which may also describe what
// other plugins made. `link` is the interface if it exists. Returns one line for each difference:
// link, MAC, state, addresses, routes. MAC, addresses and routes may differ if a sandbox or a
// virtual machine has them (frame_reader.h).
[[nodiscard]] std::vector<std::string> DiffContainer(Container& container,
                                                     const cni::Request& request,
                                                     const std::optional<rtnl::Link>& link,
                                                     const cni::Result& expected,
                                                     ExpectedState state);

// Like DiffContainer(), but for lo, which only has to be up.
[[nodiscard]] std::vector<std::string> DiffLoopback(Container& container);

// Returns the addresses of the container's interface according to `result`: the addresses of
// CNI_IFNAME in CNI_NETNS, and the addresses that name no interface.
[[nodiscard]] std::vector<Cidr> AddressesIn(const cni::Result& result, const cni::Request& request);
// Returns the MAC of the container's interface according to `result`.
[[nodiscard]] std::optional<Mac> MacIn(const cni::Result& result, const cni::Request& request);

}  // namespace nomad_bridge::link
