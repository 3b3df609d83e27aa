// Facts about the node that several checks of one command need. Each is read once, when it is first
// needed. For commands that change nothing.
//
// Errors   kKernel
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "netlink/rtnl/rtnl.h"
#include "plugin/state/host.h"

namespace nomad_bridge::causes {

class NodeFacts {
 public:
  explicit NodeFacts(state::Host& of) : host(of) {}

  state::Host& host;

  [[nodiscard]] const std::vector<rtnl::Link>& Links();
  [[nodiscard]] std::optional<rtnl::Link> FindLink(const std::string& name);
  [[nodiscard]] std::optional<rtnl::Link> FindLink(int index);
  // Returns the links through which the node is reached (link/uplink.h).
  [[nodiscard]] const std::vector<rtnl::Link>& Uplinks();
  [[nodiscard]] const std::vector<Cidr>& Addresses(const rtnl::Link& link);
  // Returns whether the node has an address of `family` on an uplink, or on a link that belongs to
  // no network, such as lo.
  [[nodiscard]] bool HasAddress(Family family);
  // Returns for which families the kernel has a way beyond the node, by all its rules.
  [[nodiscard]] const state::Record::DefaultRoutes& DefaultRoutes();

 private:
  std::optional<std::vector<rtnl::Link>> links_;
  std::map<int, std::vector<Cidr>> addresses_;  // by link
  std::optional<std::vector<rtnl::Link>> uplinks_;
  std::map<Family, bool> has_address_;
  std::optional<state::Record::DefaultRoutes> default_routes_;
};

[[nodiscard]] bool HasDefaultRoute(const std::vector<Route>& routes, Family family);

}  // namespace nomad_bridge::causes
