#include <cerrno>

#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include "base/error.h"
#include "base/text.h"
#include "netlink/rtnl/rtnl_impl.h"

namespace nomad_bridge::rtnl {
namespace {

netlink::Message BridgeMessage(const std::string& name,
                               const Mac& mac,
                               int mtu,
                               bool vlan_filtering) {
  netlink::Message message(RTM_NEWLINK, kCreate);
  message.Head(HeadFor(0));
  // A MAC given on creation counts as set by an administrator: the bridge then does not take its
  // ports' lowest.
  PutIdentity(message, name, mac, mtu);
  const netlink::Nest info(message, IFLA_LINKINFO);
  message.PutText(IFLA_INFO_KIND, "bridge");
  const netlink::Nest data(message, IFLA_INFO_DATA);
  // Snooping filters nothing until somebody queries for groups; then it withholds from all others what
  // they have not reported, and that somebody may be any of the ports. And an ADD is a tenth to a fifth
  // slower with it (docs/figures.md).
  message.PutU8(IFLA_BR_MCAST_SNOOPING, 0);
  if (vlan_filtering) {
    message.PutU8(IFLA_BR_VLAN_FILTERING, 1);
  }
  return message;
}

}  // namespace

bool Socket::CreateBridge(const std::string& name, const Mac& mac, int mtu, bool vlan_filtering) {
  const std::string what = Format("cannot create bridge '{}'", name);
  netlink::Reply reply = socket_.Transact(BridgeMessage(name, mac, mtu, vlan_filtering), what);
  if (reply.error == EOPNOTSUPP && vlan_filtering) {
    reply.words = kNoVlans;
  }
  if (reply.error != 0 && reply.error != EEXIST) {
    throw netlink::NetlinkError(what, reply);
  }
  return reply.error == 0;
}

void Socket::FixMac(const Link& bridge) {
  Change(bridge, {.mac = bridge.mac});
  if (bridge.has_id) {
    return;
  }
  netlink::Message message(RTM_NEWNEIGH, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE);
  message.Head(ndmsg{.ndm_family = AF_BRIDGE,
                     .ndm_ifindex = bridge.index,
                     .ndm_state = NUD_PERMANENT,
                     .ndm_flags = NTF_SELF});
  message.PutBytes(NDA_LLADDR, bridge.mac.bytes);
  socket_.TransactOrThrow(message, Format("cannot fix the MAC of bridge '{}'", bridge.name));
}

bool Socket::CreateVlanLink(const std::string& name, const Link& bridge, std::uint16_t vlan) {
  netlink::Message message(RTM_NEWLINK, kCreate);
  message.Head(HeadFor(0));
  message.PutText(IFLA_IFNAME, name);
  message.PutU32(IFLA_LINK, static_cast<std::uint32_t>(bridge.index));
  {
    const netlink::Nest info(message, IFLA_LINKINFO);
    message.PutText(IFLA_INFO_KIND, "vlan");
    const netlink::Nest data(message, IFLA_INFO_DATA);
    message.PutU16(IFLA_VLAN_ID, vlan);
  }
  const std::string what =
      Format("cannot create '{}' for VLAN {} of '{}'", name, vlan, bridge.name);
  return socket_.TransactOrThrow(message, what, {EEXIST}).error == 0;
}

}  // namespace nomad_bridge::rtnl
