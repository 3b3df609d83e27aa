#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

#include <linux/if.h>
#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>

#include "base/error.h"
#include "base/text.h"
#include "netlink/rtnl/rtnl_impl.h"

namespace nomad_bridge::rtnl {
namespace {

// A veth uses one queue. Since Linux 5.15 it is created with one per processor by default; the kernel
// then switches off all but one, which costs an RCU grace period per end.
void PutOneQueue(netlink::Message& message) {
  message.PutU32(IFLA_NUM_TX_QUEUES, 1);
  message.PutU32(IFLA_NUM_RX_QUEUES, 1);
}

// The whole pair: { host end { LINKINFO { "veth", DATA { PEER { container end } } } } }.
netlink::Message VethPairMessage(const VethSpec& spec, int container_fd) {
  netlink::Message message(RTM_NEWLINK, kCreate);
  message.Head(HeadFor(0));
  PutIdentity(message, spec.host_name, spec.host_mac, spec.mtu);
  PutOneQueue(message);
  message.PutU32(IFLA_MASTER, static_cast<std::uint32_t>(spec.bridge));
  const netlink::Nest info(message, IFLA_LINKINFO);
  message.PutText(IFLA_INFO_KIND, "veth");
  const netlink::Nest data(message, IFLA_INFO_DATA);
  const netlink::Nest peer(message, VETH_INFO_PEER);
  message.Head(HeadFor(0));
  // The same MTU on both ends: the kernel would give the container's its default.
  PutIdentity(message, spec.container_ifname, spec.container_mac, spec.mtu);
  PutOneQueue(message);
  message.PutU32(IFLA_NET_NS_FD, static_cast<std::uint32_t>(container_fd));
  return message;
}

std::string_view OnOff(bool value) {
  return value ? "on" : "off";
}

// "up, bridge index 5, MTU 1400", for the error about a change.
std::string Describe(const LinkChange& change) {
  std::string text;
  const auto add = [&](const auto&... parts) { text += Cat(text.empty() ? "" : ", ", parts...); };
  if (change.up) {
    add(*change.up ? "up" : "down");
  }
  if (change.promiscuous) {
    add("promiscuous mode ", OnOff(*change.promiscuous));
  }
  if (change.mac) {
    add("MAC ", *change.mac);
  }
  if (change.mtu) {
    add("MTU ", *change.mtu);
  }
  if (change.master) {
    add("bridge index ", *change.master);
  }
  if (change.alias) {
    add("alias ", Quoted(*change.alias));
  }
  if (change.port) {
    add("hairpin mode ", OnOff(change.port->hairpin));
    add("isolation ", OnOff(change.port->isolated));
    add("forwarding of link-local groups ", OnOff(change.port->forwards_groups));
  }
  return text;
}

// A bit per group, but for that of pause frames, which the kernel refuses. Linux 4.15.
constexpr std::uint16_t kAllGroups = 0xfffd;

void PutPortFlags(netlink::Message& message, const PortFlags& flags) {
  const netlink::Nest info(message, IFLA_LINKINFO);
  message.PutText(IFLA_INFO_SLAVE_KIND, "bridge");
  const netlink::Nest data(message, IFLA_INFO_SLAVE_DATA);
  message.PutU8(IFLA_BRPORT_MODE, flags.hairpin ? 1 : 0);
  message.PutU8(IFLA_BRPORT_ISOLATED, flags.isolated ? 1 : 0);
  message.PutU16(IFLA_BRPORT_GROUP_FWD_MASK, flags.forwards_groups ? kAllGroups : 0);
}

ifinfomsg HeadOfChange(int index, const LinkChange& change) {
  ifinfomsg head = HeadFor(index);
  const auto flag = [&](const std::optional<bool>& wanted, unsigned int bit) {
    if (wanted) {
      head.ifi_change |= bit;
      head.ifi_flags |= *wanted ? bit : 0;
    }
  };
  flag(change.up, IFF_UP);
  flag(change.promiscuous, IFF_PROMISC);
  return head;
}

Mac ReadMac(std::span<const std::uint8_t> bytes) {
  Mac mac;
  if (bytes.size() == mac.bytes.size()) {
    std::ranges::copy(bytes, mac.bytes.begin());
  }
  return mac;
}

// A link whose carrier came after it was set up drops what is sent (its queue is "noop") until the
// kernel has processed the event; its operstate may be "unknown" until then, and for some links
// always is.
bool IsOperational(const LinkState& state, unsigned int flags, const std::string& queue) {
  const bool carries = (flags & IFF_UP) != 0 && (flags & IFF_LOWER_UP) != 0 && queue != "noop";
  return carries && (state.operstate == IF_OPER_UP || state.operstate == IF_OPER_UNKNOWN);
}

std::optional<LinkState> Find(netlink::RequestSocket& socket,
                              const netlink::Message& request,
                              const std::string& what) {
  const netlink::Reply reply =
      socket.TransactOrThrow(request, Cat("cannot look at ", what), {ENODEV});
  if (reply.messages.empty()) {
    return std::nullopt;
  }
  return ReadLink(nlmsg_hdr(reply.messages.front().get()));
}

// Of a bridge's id.
bool HasMac(std::span<const std::uint8_t> id) {
  return id.size() == sizeof(ifla_bridge_id) &&
         ReadMac(id.subspan(offsetof(ifla_bridge_id, addr))) != Mac();
}

// The attributes of bridges, bridge ports and VLAN links.
void ReadBridging(const netlink::Attributes& info, LinkState& state) {
  const auto is_set = [](const netlink::Attributes& attributes, int attribute) {
    return attributes.U8(attribute).value_or(0) != 0;
  };
  if (state.link.kind == "vlan") {
    state.link.vlan = info.Inside(IFLA_INFO_DATA).U16(IFLA_VLAN_ID).value_or(0);
  }
  if (state.link.kind == "bridge") {
    const netlink::Attributes bridge = info.Inside(IFLA_INFO_DATA);
    state.link.vlan_filtering = is_set(bridge, IFLA_BR_VLAN_FILTERING);
    state.link.has_id = HasMac(bridge.Bytes(IFLA_BR_BRIDGE_ID));
  }
  if (info.Text(IFLA_INFO_SLAVE_KIND) == "bridge") {
    const netlink::Attributes port = info.Inside(IFLA_INFO_SLAVE_DATA);
    state.port_state = port.U8(IFLA_BRPORT_STATE);
    state.link.forwarding = state.port_state == BR_STATE_FORWARDING;
    state.link.hairpin = is_set(port, IFLA_BRPORT_MODE);
    state.link.isolated = is_set(port, IFLA_BRPORT_ISOLATED);
    state.link.forwards_groups = port.U16(IFLA_BRPORT_GROUP_FWD_MASK) == kAllGroups;
    state.link.locked = is_set(port, IFLA_BRPORT_LOCKED) && !is_set(port, IFLA_BRPORT_LEARNING);
  }
}

std::optional<LinkCounters> ReadCounters(std::span<const std::uint8_t> bytes) {
  // Newer kernels append to it.
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

}  // namespace

ifinfomsg HeadFor(int index, unsigned char family) {
  return {.ifi_family = family, .ifi_index = index};
}

void PutIdentity(netlink::Message& message, const std::string& name, const Mac& mac, int mtu) {
  message.PutText(IFLA_IFNAME, name);
  message.PutBytes(IFLA_ADDRESS, mac.bytes);
  if (mtu != 0) {
    message.PutU32(IFLA_MTU, static_cast<std::uint32_t>(mtu));
  }
}

netlink::Message GetLinkRequest(int index) {
  netlink::Message request(RTM_GETLINK, 0);
  request.Head(HeadFor(index));
  request.PutU32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
  return request;
}

LinkState ReadLink(const nlmsghdr* message) {
  const ifinfomsg* const head = netlink::HeadOf<ifinfomsg>(message);
  if (head == nullptr) {
    throw Error(Code::kKernel, "the kernel's answer about a link is cut short");
  }
  const netlink::Attributes attributes(message, sizeof(ifinfomsg));
  const netlink::Attributes info = attributes.Inside(IFLA_LINKINFO);
  LinkState state;
  state.link = {
      .index = head->ifi_index,
      .name = attributes.Text(IFLA_IFNAME),
      .kind = info.Text(IFLA_INFO_KIND),
      .alias = attributes.Text(IFLA_IFALIAS),
      .mac = ReadMac(attributes.Bytes(IFLA_ADDRESS)),
      .mtu = attributes.Number<int>(IFLA_MTU).value_or(0),
      .up = (head->ifi_flags & IFF_UP) != 0,
      .promiscuous = (head->ifi_flags & IFF_PROMISC) != 0,
      .master = attributes.Number<int>(IFLA_MASTER).value_or(0),
      .peer = attributes.Number<int>(IFLA_LINK).value_or(0),
  };
  state.link.peer_netns = attributes.Number<int>(IFLA_LINK_NETNSID);
  state.link.counters = ReadCounters(attributes.Bytes(IFLA_STATS64));
  state.operstate = attributes.U8(IFLA_OPERSTATE).value_or(IF_OPER_UNKNOWN);
  ReadBridging(info, state);
  state.link.operational = IsOperational(state, head->ifi_flags, attributes.Text(IFLA_QDISC));
  return state;
}

std::optional<LinkState> FindLinkState(netlink::RequestSocket& socket, const std::string& name) {
  netlink::Message request = GetLinkRequest(0);
  request.PutText(IFLA_IFNAME, name);
  return Find(socket, request, Format("interface '{}'", name));
}

Socket Socket::In(const netlink::Netns& ns) {
  return Socket(netlink::RequestSocket::In(ns, NETLINK_ROUTE));
}

std::optional<Link> Socket::FindLink(const std::string& name) {
  std::optional<LinkState> state = FindLinkState(socket_, name);
  return state ? std::optional(std::move(state->link)) : std::nullopt;
}

std::optional<Link> Socket::FindLink(int index) {
  std::optional<LinkState> state =
      Find(socket_, GetLinkRequest(index), Cat("the interface of index ", index));
  return state ? std::optional(std::move(state->link)) : std::nullopt;
}

std::vector<Link> Socket::Links() {
  netlink::Message request(RTM_GETLINK, NLM_F_DUMP);
  request.Head(HeadFor(0));
  const netlink::Reply reply = socket_.TransactOrThrow(request, "cannot list the interfaces");
  std::vector<Link> links;
  links.reserve(reply.messages.size());
  for (const netlink::NlMessage& message : reply.messages) {
    links.push_back(ReadLink(nlmsg_hdr(message.get())).link);
  }
  return links;
}

Link Socket::RequireLink(const std::string& name) {
  std::optional<Link> link = FindLink(name);
  if (!link) {
    throw Error(Code::kKernel, Format("link '{}' has vanished while it was being set up", name));
  }
  return *std::move(link);
}

void Socket::CreateVeth(const VethSpec& spec, const netlink::Netns& container) {
  const std::string what =
      Format("cannot create veth pair '{}' - '{}'", spec.host_name, spec.container_ifname);
  const netlink::Reply reply =
      socket_.TransactOrThrow(VethPairMessage(spec, container.fd()), what, {EEXIST, EXFULL});
  if (reply.error == EEXIST) {
    // The kernel does not say at which end.
    const bool on_host = FindLink(spec.host_name).has_value();
    const std::string name = Quoted(on_host ? spec.host_name : spec.container_ifname);
    throw Error(Code::kConflict,
                what,
                Format("the {} has an interface {} already", on_host ? "host" : "container", name));
  }
  if (reply.error == EXFULL) {
    const std::string bridge = Quoted(FindLink(spec.bridge).value_or(Link()).name);
    throw Error(Code::kKernel,
                what,
                Cat("bridge ", bridge, " already has 1,023 ports, the kernel's limit (EXFULL)"));
  }
}

void Socket::Change(const Link& link, const LinkChange& change) {
  const std::string wanted = Describe(change);
  if (wanted.empty()) {
    return;
  }
  // For an existing link RTM_NEWLINK changes what RTM_SETLINK does, and its bridge port's flags too.
  netlink::Message message(RTM_NEWLINK, kAck);
  message.Head(HeadOfChange(link.index, change));
  if (change.port) {
    PutPortFlags(message, *change.port);
  }
  if (change.mac) {
    message.PutBytes(IFLA_ADDRESS, change.mac->bytes);
  }
  if (change.mtu) {
    message.PutU32(IFLA_MTU, static_cast<std::uint32_t>(*change.mtu));
  }
  if (change.master) {
    message.PutU32(IFLA_MASTER, static_cast<std::uint32_t>(*change.master));
  }
  if (change.alias) {
    // Without a final zero, which would count as the 256th byte of a full one.
    const std::vector<std::uint8_t> alias(change.alias->begin(), change.alias->end());
    message.PutBytes(IFLA_IFALIAS, alias);
  }
  socket_.TransactOrThrow(message, Format("cannot set interface '{}': {}", link.name, wanted));
}

void Socket::EnsureLinkGone(const std::string& name) {
  netlink::Message message(RTM_DELLINK, kAck);
  message.Head(HeadFor(0));
  message.PutText(IFLA_IFNAME, name);
  socket_.TransactOrThrow(message, Format("cannot delete interface '{}'", name), {ENODEV});
}

bool Socket::IsNetnsAlive(int netns_id) {
  // EINVAL: nothing references that namespace any more. -1, for a namespace that is being torn down,
  // is invalid too.
  netlink::Message request = GetLinkRequest(kLoopbackIndex);
  request.PutU32(IFLA_TARGET_NETNSID, static_cast<std::uint32_t>(netns_id));
  const std::string what = Cat("cannot tell whether namespace ", netns_id, " is alive");
  return socket_.TransactOrThrow(request, what, {EINVAL}).error == 0;
}

}  // namespace nomad_bridge::rtnl
