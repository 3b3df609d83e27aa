// Reads links as the kernel shows them: one by name or index, or all.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <span>

#include <linux/if.h>
#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/net_namespace.h>
#include <linux/netconf.h>
#include <linux/rtnetlink.h>

#include "base/error.h"
#include "base/text.h"
#include "netlink/rtnl/rtnl_impl.h"

namespace nomad_bridge::rtnl {
namespace {

// If a link gets its carrier after it was set up, its queue is "noop" and drops packets until the
// kernel has processed the event. Until then its operstate may be "unknown", but some links always
// have that operstate. So the queue decides.
bool IsOperational(const Link& link, unsigned int flags, const std::string& queue) {
  const bool carries = (flags & IFF_UP) != 0 && (flags & IFF_LOWER_UP) != 0 && queue != "noop";
  return carries && (link.operstate == IF_OPER_UP || link.operstate == IF_OPER_UNKNOWN);
}

// Returns whether a bridge's id contains a MAC.
bool HasMac(std::span<const std::uint8_t> id) {
  return id.size() == sizeof(ifla_bridge_id) &&
         ReadMac(id.subspan(offsetof(ifla_bridge_id, addr))) != Mac();
}

bool IsSet(const netlink::Attributes& attributes, int attribute) {
  return attributes.U8(attribute).value_or(0) != 0;
}

void ReadPort(const netlink::Attributes& port, Link& link) {
  link.port_state = port.U8(IFLA_BRPORT_STATE);
  link.forwarding = link.port_state == BR_STATE_FORWARDING;
  link.port.hairpin = IsSet(port, IFLA_BRPORT_MODE);
  link.port.isolated = IsSet(port, IFLA_BRPORT_ISOLATED);
  link.port.forwards_groups = port.U16(IFLA_BRPORT_GROUP_FWD_MASK) == kAllGroups;
  link.locked = IsSet(port, IFLA_BRPORT_LOCKED);
  link.learns = IsSet(port, IFLA_BRPORT_LEARNING);
}

// The attributes of bridges, bridge ports and VLAN links.
void ReadBridging(const netlink::Attributes& info, Link& link) {
  if (link.kind == "vlan") {
    link.vlan = info.Inside(IFLA_INFO_DATA).U16(IFLA_VLAN_ID).value_or(0);
  }
  if (link.kind == "bridge") {
    const netlink::Attributes bridge = info.Inside(IFLA_INFO_DATA);
    link.vlan_filtering = IsSet(bridge, IFLA_BR_VLAN_FILTERING);
    link.forward_delay = bridge.U32(IFLA_BR_STP_STATE).value_or(0) == 0
                             ? 0
                             : bridge.Number<int>(IFLA_BR_FORWARD_DELAY).value_or(0);
    link.nf_call = {.ipv4 = IsSet(bridge, IFLA_BR_NF_CALL_IPTABLES),
                    .ipv6 = IsSet(bridge, IFLA_BR_NF_CALL_IP6TABLES)};
    link.has_id = HasMac(bridge.Bytes(IFLA_BR_BRIDGE_ID));
  }
  if (info.Text(IFLA_INFO_SLAVE_KIND) == "bridge") {
    ReadPort(info.Inside(IFLA_INFO_SLAVE_DATA), link);
  }
}

std::optional<LinkCounters> ReadCounters(std::span<const std::uint8_t> bytes) {
  // Newer kernels append more fields.
  constexpr std::size_t kRead = offsetof(rtnl_link_stats64, multicast);
  rtnl_link_stats64 stats{};
  if (bytes.size() < kRead) {
    return std::nullopt;
  }
  std::memcpy(&stats, bytes.data(), kRead);
  return LinkCounters{
      .received = {.bytes = stats.rx_bytes,
                   .packets = stats.rx_packets,
                   .dropped = stats.rx_dropped},
      .sent = {.bytes = stats.tx_bytes, .packets = stats.tx_packets, .dropped = stats.tx_dropped}};
}

// Generic XDP runs after the driver, so that a packet of the node itself meets it, too.
bool HasXdp(const netlink::Attributes& xdp) {
  const std::uint8_t attached = xdp.U8(IFLA_XDP_ATTACHED).value_or(XDP_ATTACHED_NONE);
  return attached != XDP_ATTACHED_NONE && attached != XDP_ATTACHED_SKB;
}

// Reads one number of an array.
std::int32_t NumberAt(std::size_t index, std::span<const std::uint8_t> bytes) {
  std::int32_t number = 0;
  std::memcpy(&number, &bytes[index * sizeof number], sizeof number);
  return number;
}

// The array's indexes are IPV4_DEVCONF_..., which count from 1.
std::optional<Ipv4Settings> ReadIpv4Settings(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < IPV4_DEVCONF_ROUTE_LOCALNET * sizeof(std::uint32_t)) {
    return std::nullopt;
  }
  return Ipv4Settings{.forwarding = NumberAt(IPV4_DEVCONF_FORWARDING - 1, bytes) != 0,
                      .route_localnet = NumberAt(IPV4_DEVCONF_ROUTE_LOCALNET - 1, bytes) != 0,
                      .arp_ignore = NumberAt(IPV4_DEVCONF_ARP_IGNORE - 1, bytes)};
}

// The array's indexes are DEVCONF_...
std::optional<Ipv6Settings> ReadIpv6Settings(std::span<const std::uint8_t> bytes) {
  if (bytes.size() <= DEVCONF_DISABLE_IPV6 * sizeof(std::int32_t)) {
    return std::nullopt;
  }
  return Ipv6Settings{.accept_ra = NumberAt(DEVCONF_ACCEPT_RA, bytes),
                      .disabled = NumberAt(DEVCONF_DISABLE_IPV6, bytes) != 0};
}

// Returns RTM_GETLINK for one link, without statistics. If `index` is 0, the caller adds the name.
netlink::Message GetLinkRequest(int index) {
  netlink::Message request(RTM_GETLINK, 0, HeadFor(index));
  request.PutU32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
  return request;
}

// `which`: NETCONFA_IFINDEX_...
bool Forwards(netlink::RequestSocket& socket, Family family, int which) {
  netlink::Message request(RTM_GETNETCONF, 0, netconfmsg{.ncm_family = NumberOf(family)});
  request.PutU32(NETCONFA_IFINDEX, static_cast<std::uint32_t>(which));
  const netlink::Reply reply = socket.TransactOrThrow(
      request, "cannot read whether this node forwards", {EOPNOTSUPP, EAFNOSUPPORT, ENODEV});
  bool forwards = false;
  netlink::ForEachMessage<netconfmsg>(reply, [&](const auto&, const auto& attributes) {
    forwards = attributes.template Number<int>(NETCONFA_FORWARDING).value_or(0) != 0;
  });
  return forwards;
}

std::optional<Link> Find(netlink::RequestSocket& socket,
                         const netlink::Message& request,
                         const std::string& what,
                         std::initializer_list<int> expected = {ENODEV}) {
  const netlink::Reply reply =
      socket.TransactOrThrow(request, Cat("cannot look at ", what), expected);
  if (reply.messages.empty()) {
    return std::nullopt;
  }
  return ReadLink(nlmsg_hdr(reply.messages.front().get()));
}

}  // namespace

Mac ReadMac(std::span<const std::uint8_t> bytes) {
  Mac mac;
  if (bytes.size() == mac.bytes.size()) {
    std::ranges::copy(bytes, mac.bytes.begin());
  }
  return mac;
}

Link ReadLink(const nlmsghdr* message) {
  const ifinfomsg* const head = netlink::HeadOf<ifinfomsg>(message);
  if (head == nullptr) {
    throw Error(Code::kKernel, "the kernel's answer about a link is cut short");
  }
  const netlink::Attributes attributes(message, sizeof(ifinfomsg));
  const netlink::Attributes info = attributes.Inside(IFLA_LINKINFO);
  Link link = {
      .index = head->ifi_index,
      .name = attributes.Text(IFLA_IFNAME),
      .kind = info.Text(IFLA_INFO_KIND),
      .alias = attributes.Text(IFLA_IFALIAS),
      .mac = ReadMac(attributes.Bytes(IFLA_ADDRESS)),
      .mtu = attributes.Number<int>(IFLA_MTU).value_or(0),
      .up = (head->ifi_flags & IFF_UP) != 0,
      .promiscuous = (head->ifi_flags & IFF_PROMISC) != 0,
      .has_xdp = HasXdp(attributes.Inside(IFLA_XDP)),
      .resolves = (head->ifi_flags & (IFF_NOARP | IFF_LOOPBACK | IFF_POINTOPOINT)) == 0,
      .master = attributes.Number<int>(IFLA_MASTER).value_or(0),
      .peer = attributes.Number<int>(IFLA_LINK).value_or(0),
  };
  link.peer_netns = attributes.Number<int>(IFLA_LINK_NETNSID);
  link.counters = ReadCounters(attributes.Bytes(IFLA_STATS64));
  const netlink::Attributes families = attributes.Inside(IFLA_AF_SPEC);
  link.ipv4 = ReadIpv4Settings(families.Inside(AF_INET).Bytes(IFLA_INET_CONF));
  link.ipv6 = ReadIpv6Settings(families.Inside(AF_INET6).Bytes(IFLA_INET6_CONF));
  link.operstate = attributes.U8(IFLA_OPERSTATE).value_or(IF_OPER_UNKNOWN);
  ReadBridging(info, link);
  link.queue = attributes.Text(IFLA_QDISC);
  link.operational = IsOperational(link, head->ifi_flags, link.queue);
  return link;
}

std::optional<Link> Socket::FindLink(const std::string& name) {
  netlink::Message request = GetLinkRequest(0);
  request.PutText(IFLA_IFNAME, name);
  return Find(socket_, request, Format("interface '{}'", name));
}

std::optional<Link> Socket::FindLink(int index) {
  return Find(socket_, GetLinkRequest(index), Cat("the interface of index ", index));
}

std::vector<Link> Socket::Links() {
  netlink::Message request(RTM_GETLINK, NLM_F_DUMP, HeadFor(0));
  const netlink::Reply reply = socket_.TransactOrThrow(request, "cannot list the interfaces");
  std::vector<Link> links;
  links.reserve(reply.messages.size());
  for (const netlink::NlMessage& message : reply.messages) {
    links.push_back(ReadLink(nlmsg_hdr(message.get())));
  }
  return links;
}

std::vector<Link> Socket::Ports(int bridge) {
  // With AF_BRIDGE the kernel lists only ports, with few attributes each. With AF_UNSPEC it would
  // also look up, for each veth, this namespace's id for the namespace of the other end, by
  // searching all ids.
  netlink::Message request(RTM_GETLINK, NLM_F_DUMP, HeadFor(0, AF_BRIDGE));
  const netlink::Reply reply = socket_.TransactOrThrow(request, "cannot list the ports of bridges");
  std::vector<Link> ports;
  ports.reserve(reply.messages.size());
  const auto read = [&](const ifinfomsg& head, const netlink::Attributes& attributes) {
    Link port = {.index = head.ifi_index,
                 .name = attributes.Text(IFLA_IFNAME),
                 .up = (head.ifi_flags & IFF_UP) != 0,
                 .master = attributes.Number<int>(IFLA_MASTER).value_or(0)};
    ReadPort(attributes.Inside(IFLA_PROTINFO), port);
    if (port.index != bridge && port.master == bridge) {
      ports.push_back(std::move(port));
    }
  };
  netlink::ForEachMessage<ifinfomsg>(reply, read);
  return ports;
}

bool Socket::ForwardsAll(Family family) {
  return Forwards(socket_, family, NETCONFA_IFINDEX_ALL);
}

bool Socket::ForwardsByDefault(Family family) {
  return Forwards(socket_, family, NETCONFA_IFINDEX_DEFAULT);
}

Link Socket::RequireLink(const std::string& name) {
  std::optional<Link> link = FindLink(name);
  if (!link) {
    throw Error(Code::kKernel, Format("link '{}' has vanished while it was being set up", name));
  }
  return *std::move(link);
}

std::optional<Link> Socket::FindPeer(const Link& veth) {
  if (!veth.peer_netns) {
    return std::nullopt;
  }
  netlink::Message request = GetLinkRequest(veth.peer);
  request.PutU32(IFLA_TARGET_NETNSID, static_cast<std::uint32_t>(*veth.peer_netns));
  return Find(socket_, request, Format("the other end of '{}'", veth.name), {ENODEV, EINVAL});
}

std::optional<int> Socket::FindNetnsId(const netlink::Netns& netns) {
  netlink::Message request(RTM_GETNSID, 0, rtgenmsg{.rtgen_family = AF_UNSPEC});
  request.PutU32(NETNSA_FD, static_cast<std::uint32_t>(netns.fd()));
  std::optional<int> id;
  netlink::ForEachMessage<rtgenmsg>(
      socket_.TransactOrThrow(request, "cannot look up the id of a namespace"),
      [&](const rtgenmsg&, const netlink::Attributes& attributes) {
        id = attributes.Number<int>(NETNSA_NSID);
      });
  return id == NETNSA_NSID_NOT_ASSIGNED ? std::nullopt : id;
}

bool Socket::IsNetnsAlive(int netns_id) {
  // The kernel answers EINVAL if nothing references that namespace any more, and also for -1, the
  // number of a namespace that is being torn down.
  netlink::Message request = GetLinkRequest(kLoopbackIndex);
  request.PutU32(IFLA_TARGET_NETNSID, static_cast<std::uint32_t>(netns_id));
  const std::string what = Cat("cannot tell whether namespace ", netns_id, " is alive");
  return socket_.TransactOrThrow(request, what, {EINVAL}).error == 0;
}

}  // namespace nomad_bridge::rtnl
