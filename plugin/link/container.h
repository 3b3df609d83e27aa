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

#include "base/finding.h"
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

// Returns the namespace of `record`; nullopt if it is gone, or cannot be seen from here.
[[nodiscard]] std::optional<netlink::Netns> FindNetns(const state::Record& record);

// The container's interface as it should be.
struct ExpectedInterface {
  std::string netns_path;
  std::string ifname;
  std::optional<Mac> mac;         // nullopt: any
  bool has_source_check = false;  // the host drops what comes from another MAC
  std::vector<Cidr> addresses;
  std::vector<Route> routes;
  int mtu = 0;               // 0: not known
  bool may_be_down = false;  // disableContainerInterface: ADD leaves it down
};

// Returns how the container's interface, `link` if it exists, differs: link, state, MAC, addresses,
// routes; each finding with the command to run inside. MAC, addresses and routes may differ if a
// sandbox or a virtual machine has them (frame_reader.h).
[[nodiscard]] FindingList FindInInterface(Container& container,
                                          const std::optional<rtnl::Link>& link,
                                          const ExpectedInterface& expected);

// Returns that `link` has another MAC; nullopt if it has not.
[[nodiscard]] std::optional<Finding> FindWrongMac(const rtnl::Link& link,
                                                  const ExpectedInterface& expected);
// Checks lo, which only has to be up.
[[nodiscard]] FindingList FindInLoopback(Container& container);

// Returns the container's interface as the record of its ADD describes it.
[[nodiscard]] ExpectedInterface ExpectedBy(const state::Record& record);
// Returns the container's interface as `expected` describes it, a prevResult, which may also
// describe what other plugins made; nullopt if it has no interface of that name.
[[nodiscard]] std::optional<ExpectedInterface> ExpectedBy(const cni::Result& expected,
                                                          const cni::Request& request);

// Returns the addresses of the container's interface according to `result`: the addresses of
// CNI_IFNAME in CNI_NETNS, and the addresses that name no interface.
[[nodiscard]] std::vector<Cidr> AddressesIn(const cni::Result& result, const cni::Request& request);
// Returns the MAC of the container's interface according to `result`.
[[nodiscard]] std::optional<Mac> MacIn(const cni::Result& result, const cni::Request& request);

}  // namespace nomad_bridge::link
