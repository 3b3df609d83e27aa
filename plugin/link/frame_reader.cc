#include "plugin/link/frame_reader.h"

#include <algorithm>
#include <vector>

#include "base/list.h"
#include "base/text.h"
#include "netlink/sockets/listeners.h"
#include "netlink/sockets/packet_sockets.h"

namespace nomad_bridge::link {
namespace {

bool HasAddress(rtnl::Socket& net, const rtnl::Link& link) {
  return std::ranges::any_of(net.Addresses(link), [](const Cidr& cidr) {
    return cidr.address.is_ipv4() || !cidr.address.IsLinkLocal();
  });
}

// Returns the tap that takes the frames of `link`: a port of the same bridge, or the target of a
// filter. A tun is no tap: it carries packets without a frame, and has no MAC.
std::optional<std::string> FindTap(rtnl::Socket& net, const rtnl::Link& link) {
  const bool is_filtered = Contains(net.FilteredDirections(link), "ingress");
  const auto takes = [&](const rtnl::Link& each) {
    const bool is_beside = link.master != 0 && each.master == link.master;
    return each.kind == "tun" && each.mac != Mac() && (is_beside || is_filtered);
  };
  const std::vector<rtnl::Link> links = net.Links();
  const auto tap = std::ranges::find_if(links, takes);
  return tap == links.end() ? std::nullopt : std::optional(Format("tap '{}'", tap->name));
}

}  // namespace

std::optional<std::string> FindFrameReader(const netlink::Netns& netns,
                                           rtnl::Socket& net,
                                           const rtnl::Link& link) {
  // tcpdump has a packet socket, too. If the interface has an address, the socket only listens in.
  const std::optional<std::uint32_t> socket =
      HasAddress(net, link) ? std::nullopt : sockets::FindPacketSocket(netns, link.index);
  if (socket) {
    return Format("a packet socket of {}", sockets::HolderOf(*socket));
  }
  return FindTap(net, link);
}

}  // namespace nomad_bridge::link
