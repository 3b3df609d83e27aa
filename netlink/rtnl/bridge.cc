// Bridges and their ports. A port that accepts only one source MAC is locked: it drops frames whose
// source MAC has no FDB entry for that port. Learning is off on such a port, so all its entries are
// static.
#include <algorithm>
#include <cerrno>
#include <random>

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
  netlink::Message message(RTM_NEWLINK, kCreate, HeadFor(0));
  // A MAC given on creation counts as set by an administrator. Otherwise the bridge takes the
  // lowest MAC of its ports.
  PutIdentity(message, name, mac, mtu);
  const netlink::Nest info(message, IFLA_LINKINFO);
  message.PutText(IFLA_INFO_KIND, "bridge");
  const netlink::Nest data(message, IFLA_INFO_DATA);
  // Multicast snooping filters nothing until a port sends a query for groups, which any port may
  // do. From then on, ports get no multicast for groups that they have not reported. With snooping,
  // an ADD is a tenth to a fifth slower (docs/inside/figures.md).
  message.PutU8(IFLA_BR_MCAST_SNOOPING, 0);
  if (vlan_filtering) {
    message.PutU8(IFLA_BR_VLAN_FILTERING, 1);
  }
  return message;
}

// Returns a random MAC outside of any vendor's range, like the kernel's for a new bridge.
Mac RandomMac() {
  std::random_device random;
  Mac mac;
  std::ranges::generate(mac.bytes, [&] { return static_cast<std::uint8_t>(random()); });
  mac.bytes[0] = (mac.bytes[0] & 0xfcU) | 2U;
  return mac;
}

// A message about an FDB entry of `mac`.
netlink::Message FdbEntryMessage(const Link& port,
                                 int state,
                                 int flags,
                                 const Mac& mac,
                                 bool is_new = true) {
  netlink::Message message(is_new ? RTM_NEWNEIGH : RTM_DELNEIGH,
                           is_new ? NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE : NLM_F_ACK,
                           ndmsg{.ndm_family = AF_BRIDGE,
                                 .ndm_ifindex = port.index,
                                 .ndm_state = static_cast<std::uint16_t>(state),
                                 .ndm_flags = static_cast<std::uint8_t>(flags)});
  message.PutBytes(NDA_LLADDR, mac.bytes);
  return message;
}

netlink::Message LockMessage(const Link& port, bool is_locked) {
  netlink::Message message(RTM_SETLINK, kAck, HeadFor(port.index, AF_BRIDGE));
  const netlink::Nest info(message, IFLA_PROTINFO);
  // Learning must be off: even a locked port learns from frames to link-local groups, so a
  // container could redirect a neighbour's traffic to itself.
  message.PutU8(IFLA_BRPORT_LEARNING, is_locked ? 0 : 1);
  message.PutU8(IFLA_BRPORT_LOCKED, is_locked ? 1 : 0);
  // Flush learned entries: the locked port would accept frames from these MACs, too.
  message.PutU8(IFLA_BRPORT_FLUSH, 1);
  return message;
}

FdbEntry::Kind KindOf(int state) {
  if ((state & NUD_PERMANENT) != 0) {
    return FdbEntry::Kind::kOwn;
  }
  return state == NUD_NOARP ? FdbEntry::Kind::kStatic : FdbEntry::Kind::kLearned;
}

// Returns the FDB entries of link `index`, or of all links if `index` is 0.
std::vector<FdbEntry> ListFdb(netlink::RequestSocket& socket, int index, const std::string& what) {
  netlink::Message request(
      RTM_GETNEIGH, NLM_F_DUMP, ndmsg{.ndm_family = AF_BRIDGE, .ndm_ifindex = index});
  const netlink::Reply reply = socket.TransactOrThrow(request, what);
  std::vector<FdbEntry> entries;
  const auto read = [&](const ndmsg& head, const netlink::Attributes& attributes) {
    const bool is_a_bridges = attributes.U32(NDA_MASTER).has_value();
    if (is_a_bridges && (index == 0 || head.ndm_ifindex == index)) {
      entries.push_back({.port = head.ndm_ifindex,
                         .mac = ReadMac(attributes.Bytes(NDA_LLADDR)),
                         .vlan = attributes.U16(NDA_VLAN).value_or(0),
                         .kind = KindOf(head.ndm_state)});
    }
  };
  netlink::ForEachMessage<ndmsg>(reply, read);
  return entries;
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
  // A bridge without a fixed MAC loses its MAC with its last port.
  const bool has_mac = bridge.mac.IsUnicast();
  Change(bridge, {.mac = has_mac ? bridge.mac : RandomMac()});
  if (bridge.has_id || !has_mac) {
    return;
  }
  const netlink::Message message = FdbEntryMessage(bridge, NUD_PERMANENT, NTF_SELF, bridge.mac);
  socket_.TransactOrThrow(message, Format("cannot fix the MAC of bridge '{}'", bridge.name));
}

bool Socket::CreateVlanLink(const std::string& name, const Link& bridge, std::uint16_t vlan) {
  netlink::Message message(RTM_NEWLINK, kCreate, HeadFor(0));
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

void Socket::LockPort(const Link& port, const Mac& mac) {
  const std::string what = Format("cannot lock bridge port '{}' to {}", port.name, mac);
  // The entry comes before the lock, so that the bridge never drops a running container's own
  // frames. NUD_NOARP: the entry does not age. NTF_STICKY: a frame with this source MAC at another
  // port must not move the entry there. Because we name no VLAN, the kernel adds the entry for each
  // VLAN of the port, and for frames outside of any VLAN.
  socket_.TransactOrThrow(FdbEntryMessage(port, NUD_NOARP, NTF_MASTER | NTF_STICKY, mac), what);
  socket_.TransactOrThrow(LockMessage(port, true), what);
  // An older kernel ignores IFLA_BRPORT_LOCKED and reports success.
  if (const std::optional<Link> now = FindLink(port.index); !now || !now->locked) {
    throw Error(Code::kKernel,
                what,
                now ? "'macspoofchk' needs locked bridge ports, which Linux has since 5.18"
                    : "it has disappeared");
  }
}

void Socket::UnlockPort(const Link& port) {
  socket_.TransactOrThrow(LockMessage(port, false),
                          Format("cannot unlock bridge port '{}'", port.name));
}

std::vector<FdbEntry> Socket::AllFdbEntries() {
  return ListFdb(socket_, 0, "cannot list the MACs behind bridge ports");
}

void Socket::EnsureFdbEntryGone(const Link& port, const Mac& mac) {
  socket_.TransactOrThrow(FdbEntryMessage(port, 0, NTF_MASTER, mac, false),
                          Format("cannot remove a MAC behind bridge port '{}'", port.name),
                          {ENOENT, ENODEV, EOPNOTSUPP});
}

bool Socket::IsPortLocked(const Link& port, const Mac& mac) {
  const std::optional<Link> now = FindLink(port.index);
  if (!now || !now->locked || now->learns) {
    return false;
  }
  const std::vector<FdbEntry> entries = ListFdb(
      socket_, now->index, Format("cannot list the MACs behind bridge port '{}'", port.name));
  const auto is_learned = [](const FdbEntry& entry) {
    return entry.kind == FdbEntry::Kind::kLearned;
  };
  if (std::ranges::any_of(entries, is_learned)) {
    return false;
  }
  std::vector<Vlan> vlans = Vlans(*now);
  vlans.push_back({});  // frames outside of any VLAN
  for (const Vlan& vlan : vlans) {
    for (std::uint16_t id = vlan.ids.first; id <= vlan.ids.last; ++id) {
      if (std::ranges::none_of(entries, [&](const FdbEntry& entry) {
            return entry.kind == FdbEntry::Kind::kStatic && entry.mac == mac && entry.vlan == id;
          })) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace nomad_bridge::rtnl
