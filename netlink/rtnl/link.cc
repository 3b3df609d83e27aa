// Creates, changes and deletes links.
#include <cerrno>
#include <string_view>

#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>

#include "base/error.h"
#include "base/text.h"
#include "netlink/rtnl/rtnl_impl.h"

namespace nomad_bridge::rtnl {
namespace {

// A veth needs only one queue. Since Linux 5.15 the default is one queue per processor; the kernel
// then switches off all but one queue, which costs an RCU grace period per end.
void PutOneQueue(netlink::Message& message) {
  message.PutU32(IFLA_NUM_TX_QUEUES, 1);
  message.PutU32(IFLA_NUM_RX_QUEUES, 1);
}

// The whole pair: { host end { LINKINFO { "veth", DATA { PEER { container end } } } } }.
netlink::Message VethPairMessage(const VethSpec& spec, int container_fd) {
  netlink::Message message(RTM_NEWLINK, kCreate, HeadFor(0));
  PutIdentity(message, spec.host_name, spec.host_mac, spec.mtu);
  PutOneQueue(message);
  message.PutU32(IFLA_MASTER, static_cast<std::uint32_t>(spec.bridge));
  const netlink::Nest info(message, IFLA_LINKINFO);
  message.PutText(IFLA_INFO_KIND, "veth");
  const netlink::Nest data(message, IFLA_INFO_DATA);
  const netlink::Nest peer(message, VETH_INFO_PEER);
  message.Head(HeadFor(0));
  // Set the MTU on both ends: otherwise the container's end would get the kernel's default.
  PutIdentity(message, spec.container_ifname, spec.container_mac, spec.mtu);
  PutOneQueue(message);
  message.PutU32(IFLA_NET_NS_FD, static_cast<std::uint32_t>(container_fd));
  return message;
}

std::string_view OnOff(bool value) {
  return value ? "on" : "off";
}

// Returns the settings as text, for the error.
std::string PutPortFlags(netlink::Message& message, const PortFlags& flags) {
  const netlink::Nest info(message, IFLA_LINKINFO);
  message.PutText(IFLA_INFO_SLAVE_KIND, "bridge");
  const netlink::Nest data(message, IFLA_INFO_SLAVE_DATA);
  message.PutU8(IFLA_BRPORT_MODE, flags.hairpin ? 1 : 0);
  message.PutU8(IFLA_BRPORT_ISOLATED, flags.isolated ? 1 : 0);
  message.PutU16(IFLA_BRPORT_GROUP_FWD_MASK, flags.forwards_groups ? kAllGroups : 0);
  return Format("hairpin mode {}, isolation {}, forwarding of link-local groups {}",
                OnOff(flags.hairpin),
                OnOff(flags.isolated),
                OnOff(flags.forwards_groups));
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

// Returns the settings as text, for the error.
std::string PutNfCall(netlink::Message& message, const NfCall& nf_call) {
  const netlink::Nest info(message, IFLA_LINKINFO);
  message.PutText(IFLA_INFO_KIND, "bridge");
  const netlink::Nest data(message, IFLA_INFO_DATA);
  message.PutU8(IFLA_BR_NF_CALL_IPTABLES, nf_call.ipv4 ? 1 : 0);
  message.PutU8(IFLA_BR_NF_CALL_IP6TABLES, nf_call.ipv6 ? 1 : 0);
  return Format(
      "nf_call_iptables {} and nf_call_ip6tables {}", OnOff(nf_call.ipv4), OnOff(nf_call.ipv6));
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

Socket Socket::In(const netlink::Netns& ns) {
  return Socket(netlink::RequestSocket::In(ns, NETLINK_ROUTE));
}

void Socket::CreateVeth(const VethSpec& spec, const netlink::Netns& container) {
  const std::string what =
      Format("cannot create veth pair '{}' - '{}'", spec.host_name, spec.container_ifname);
  const netlink::Reply reply =
      socket_.TransactOrThrow(VethPairMessage(spec, container.fd()), what, {EEXIST, EXFULL});
  if (reply.error == EEXIST) {
    // The kernel does not say which end's name is taken.
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
  std::string wanted;  // "up, bridge index 5, MTU 1400", for the error
  const auto note = [&](const auto&... parts) {
    wanted += Cat(wanted.empty() ? "" : ", ", parts...);
  };
  // For an existing link, RTM_NEWLINK does the same as RTM_SETLINK, and also changes the flags of a
  // bridge port.
  netlink::Message message(RTM_NEWLINK, kAck, HeadOfChange(link.index, change));
  if (change.up) {
    note(*change.up ? "up" : "down");
  }
  if (change.promiscuous) {
    note("promiscuous mode ", OnOff(*change.promiscuous));
  }
  if (change.mac) {
    note("MAC ", *change.mac);
    message.PutBytes(IFLA_ADDRESS, change.mac->bytes);
  }
  if (change.mtu) {
    note("MTU ", *change.mtu);
    message.PutU32(IFLA_MTU, static_cast<std::uint32_t>(*change.mtu));
  }
  if (change.master) {
    note("bridge index ", *change.master);
    message.PutU32(IFLA_MASTER, static_cast<std::uint32_t>(*change.master));
  }
  if (change.alias) {
    note("alias ", Quoted(*change.alias));
    // Without a final zero byte: with an alias of 255 bytes, it would be the 256th byte, and too
    // long.
    const std::vector<std::uint8_t> alias(change.alias->begin(), change.alias->end());
    message.PutBytes(IFLA_IFALIAS, alias);
  }
  if (change.port) {
    note(PutPortFlags(message, *change.port));
  }
  if (change.nf_call) {
    note(PutNfCall(message, *change.nf_call));
  }
  if (!wanted.empty()) {
    socket_.TransactOrThrow(message, Format("cannot set interface '{}': {}", link.name, wanted));
  }
}

void Socket::EnsureLinkGone(const std::string& name) {
  netlink::Message message(RTM_DELLINK, kAck, HeadFor(0));
  message.PutText(IFLA_IFNAME, name);
  socket_.TransactOrThrow(message, Format("cannot delete interface '{}'", name), {ENODEV});
}

}  // namespace nomad_bridge::rtnl
