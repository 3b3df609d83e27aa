// The container's side: its namespace, and whether its interface still is as ADD configured it. It
// is the container's own, so nothing here changes it.
//
// Errors   kInvalidNetns if CNI_NETNS is the host's own namespace (unless CNI_NETNS_OVERRIDE);
//          kInvalidEnvironment if it is no network namespace; kKernel.
// Owns     a descriptor of the namespace and a socket in it, opened once per command.
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

// Opens CNI_NETNS. `host`: the host's own.
[[nodiscard]] Container OpenContainer(const cni::Request& request, const netlink::Netns& host);

// The same; nullopt if the namespace is gone, not visible here, or not named; or if its path, the
// one of `record`, leads to the host's own by now.
[[nodiscard]] std::optional<Container> FindContainer(
    const cni::Request& request,
    const netlink::Netns& host,
    const std::optional<state::Record>& record = std::nullopt);

// The container's interface as it is now.
struct Inside {
  netlink::NetnsId netns;
  rtnl::Link link;
  std::vector<Cidr> addresses;  // but for link-local ones
};
// nullopt if there is no such interface, or nothing visible here leads to the namespace.
[[nodiscard]] std::optional<Inside> FindInside(const std::string& netns_path,
                                               const std::string& ifname);

// Why sourceCheck drops all that the container sends by `inside`, its interface; nullopt if it does
// not. A plugin behind us may have given it another MAC.
[[nodiscard]] std::optional<std::string> FindMacMismatch(const rtnl::Link& inside,
                                                         const state::Record& record);

// Whether the interface has to be up; with disableContainerInterface ADD leaves it down.
enum class ExpectedState { kUp, kAny };

// How the container's interface, `link` if it is there, differs from `expected` (a prevResult,
// which may also describe what other plugins made), one line each: link, MAC, state, addresses,
// routes. MAC, addresses and routes may be others where a sandbox or a virtual machine has them
// (frame_reader.h).
[[nodiscard]] std::vector<std::string> DiffContainer(Container& container,
                                                     const cni::Request& request,
                                                     const std::optional<rtnl::Link>& link,
                                                     const cni::Result& expected,
                                                     ExpectedState state);

// The same for lo, which only has to be up.
[[nodiscard]] std::vector<std::string> DiffLoopback(Container& container);

// The addresses of the container's interface according to `result`: those of CNI_IFNAME in
// CNI_NETNS, and those that name no interface.
[[nodiscard]] std::vector<Cidr> AddressesIn(const cni::Result& result, const cni::Request& request);
// Its MAC, likewise.
[[nodiscard]] std::optional<Mac> MacIn(const cni::Result& result, const cni::Request& request);

}  // namespace nomad_bridge::link
