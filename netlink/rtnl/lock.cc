// Bridge ports that accept one source MAC: a locked port drops frames whose source MAC has no FDB entry
// for that port, and with learning off there are only static entries.
#include <algorithm>

#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include "base/error.h"
#include "base/text.h"
#include "netlink/rtnl/rtnl_impl.h"

namespace nomad_bridge::rtnl {
namespace {

// A static FDB entry of `mac` at `port`. Without a VLAN the kernel adds it for each that the port
// has, and for frames outside of any.
netlink::Message FdbEntryMessage(const Link& port, const Mac& mac) {
  netlink::Message message(RTM_NEWNEIGH, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE);
  // Sticky, or a frame with this source MAC at another port would move the entry there.
  message.Head(ndmsg{.ndm_family = AF_BRIDGE,
                     .ndm_ifindex = port.index,
                     .ndm_state = NUD_NOARP,  // does not age
                     .ndm_flags = NTF_MASTER | NTF_STICKY});
  message.PutBytes(NDA_LLADDR, mac.bytes);
  return message;
}

netlink::Message LockMessage(const Link& port) {
  netlink::Message message(RTM_SETLINK, kAck);
  message.Head(HeadFor(port.index, AF_BRIDGE));
  const netlink::Nest info(message, IFLA_PROTINFO);
  // Even a locked port learns from frames to link-local groups, by which a container could redirect
  // a neighbour's traffic to itself.
  message.PutU8(IFLA_BRPORT_LEARNING, 0);
  message.PutU8(IFLA_BRPORT_LOCKED, 1);
  // Entries learned so far would be accepted, too.
  message.PutU8(IFLA_BRPORT_FLUSH, 1);
  return message;
}

// The FDB entries of one port.
struct FdbEntries {
  std::vector<std::uint16_t> vlans;  // those with a static entry of the MAC; 0: outside of any
  bool learned = false;              // the bridge has learned some MAC
};

FdbEntries ListFdbEntries(netlink::RequestSocket& socket, const Link& port, const Mac& mac) {
  netlink::Message request(RTM_GETNEIGH, NLM_F_DUMP);
  request.Head(ndmsg{.ndm_family = AF_BRIDGE, .ndm_ifindex = port.index});
  const netlink::Reply reply = socket.TransactOrThrow(
      request, Format("cannot list the MACs behind bridge port '{}'", port.name));
  FdbEntries entries;
  const auto read = [&](const ndmsg& head, const netlink::Attributes& attributes) {
    const bool is_the_bridges = attributes.U32(NDA_MASTER).has_value();
    if (head.ndm_ifindex != port.index || !is_the_bridges) {
      return;
    }
    if ((head.ndm_state & (NUD_REACHABLE | NUD_STALE)) != 0) {
      entries.learned = true;
    } else if (head.ndm_state == NUD_NOARP &&
               std::ranges::equal(attributes.Bytes(NDA_LLADDR), mac.bytes)) {
      entries.vlans.push_back(attributes.U16(NDA_VLAN).value_or(0));
    }
  };
  netlink::ForEachMessage<ndmsg>(reply, read);
  return entries;
}

}  // namespace

void Socket::LockPort(const Link& port, const Mac& mac) {
  const std::string what = Format("cannot lock bridge port '{}' to {}", port.name, mac);
  // In this order, so that a running container's own frames are never dropped.
  socket_.TransactOrThrow(FdbEntryMessage(port, mac), what);
  socket_.TransactOrThrow(LockMessage(port), what);
  // An older kernel ignores the attribute.
  if (const std::optional<Link> now = FindLink(port.index); !now || !now->locked) {
    throw Error(Code::kKernel,
                what,
                now ? "'macspoofchk' needs locked bridge ports, which Linux has since 5.18"
                    : "it has disappeared");
  }
}

bool Socket::IsPortLocked(const Link& port, const Mac& mac) {
  const std::optional<Link> now = FindLink(port.index);
  if (!now || !now->locked) {
    return false;
  }
  const FdbEntries entries = ListFdbEntries(socket_, *now, mac);
  if (entries.learned) {
    return false;
  }
  std::vector<Vlan> vlans = Vlans(*now);
  vlans.push_back({});  // outside of any
  for (const Vlan& vlan : vlans) {
    for (std::uint16_t id = vlan.ids.first; id <= vlan.ids.last; ++id) {
      if (std::ranges::find(entries.vlans, id) == entries.vlans.end()) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace nomad_bridge::rtnl
