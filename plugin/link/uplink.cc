#include "plugin/link/uplink.h"

#include <algorithm>
#include <array>
#include <optional>

namespace nomad_bridge::link {
namespace {

// Beyond every node, so that the route to them is the default one: a.root-servers.net. A dump of
// the routes would grow with them, and the kernel takes a query for 0.0.0.0 to mean itself.
constexpr std::array kBeyond = {"198.41.0.4", "2001:503:ba3e::2:30"};

}  // namespace

bool HasUplink(rtnl::Socket& net, const rtnl::Link& bridge) {
  const std::vector<rtnl::Link> ports = net.Ports(bridge.index);
  return std::ranges::any_of(ports, [&](const rtnl::Link& port) {
    if (!port.name.starts_with("veth")) {
      return true;
    }
    const std::optional<rtnl::Link> link = net.FindLink(port.index);
    return link && !(link->kind == "veth" && link->peer_netns);  // one that has just gone is none
  });
}

int MtuOf(rtnl::Socket& net, int wanted) {
  if (wanted != config::kUplinkMtu) {
    return wanted;
  }
  int least = 0;
  for (const char* const beyond : kBeyond) {
    const std::optional<int> index = net.LookupOutputInterface(Ip::Parse(beyond).value());
    const std::optional<rtnl::Link> uplink = index ? net.FindLink(*index) : std::nullopt;
    if (uplink && uplink->index != rtnl::kLoopbackIndex) {
      least = least == 0 ? uplink->mtu : std::min(least, uplink->mtu);
    }
  }
  return least;
}

}  // namespace nomad_bridge::link
