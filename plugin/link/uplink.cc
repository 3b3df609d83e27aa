#include "plugin/link/uplink.h"

#include <algorithm>

namespace nomad_bridge::link {

bool HasUplink(rtnl::Socket& net, const rtnl::Link& bridge) {
  const std::vector<rtnl::Socket::Port> ports = net.Ports(bridge.index);
  return std::ranges::any_of(ports, [&](const rtnl::Socket::Port& port) {
    if (!port.name.starts_with("veth")) {
      return true;
    }
    const std::optional<rtnl::Link> link = net.FindLink(port.index);
    return link && !(link->kind == "veth" && link->peer_netns);  // one that has just gone is none
  });
}

}  // namespace nomad_bridge::link
