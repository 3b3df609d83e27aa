// Bridge ports that accept one source MAC: a locked port drops frames whose source MAC has no FDB entry
// for that port, and with learning off there are only static entries.
#include <algorithm>

#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include "base/error.h"
#include "base/text.h"
#include "netlink/rtnl/rtnl_impl.h"

namespace nomad_bridge::rtnl {
namespace {

ndmsg NeighbourHead(const Link& port) {
  ndmsg head{};
  head.ndm_family = AF_BRIDGE;
  head.ndm_ifindex = port.index;
  return head;
}

// A static FDB entry of `mac` at `port`. Without a VLAN the kernel adds it for each that the port
// has, and for frames outside of any.
netlink::Message FdbEntryMessage(const Link& port, const Mac& mac) {
  netlink::Message message(RTM_NEWNEIGH, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE);
  ndmsg head = NeighbourHead(port);
  head.ndm_state = NUD_NOARP;  // does not age
  // Sticky, or a frame with this source MAC at another port would move the entry there.
  head.ndm_flags = NTF_MASTER | NTF_STICKY;
  message.Head(head);
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
  request.Head(NeighbourHead(port));
  FdbEntries entries;
  const netlink::Reply reply = socket.TransactOrThrow(
      request, Cat("cannot list the MACs behind bridge port ", Quoted(port.name)));
  for (const netlink::NlMessage& message : reply.messages) {
    const ndmsg* const head = netlink::HeadOf<ndmsg>(nlmsg_hdr(message.get()));
    const netlink::Attributes attributes(nlmsg_hdr(message.get()), sizeof(ndmsg));
    const bool is_the_bridges = attributes.U32(NDA_MASTER).has_value();
    if (head == nullptr || head->ndm_ifindex != port.index || !is_the_bridges) {
      continue;
    }
    if ((head->ndm_state & (NUD_REACHABLE | NUD_STALE)) != 0) {
      entries.learned = true;
    } else if (head->ndm_state == NUD_NOARP &&
               std::ranges::equal(attributes.Bytes(NDA_LLADDR), mac.bytes)) {
      entries.vlans.push_back(attributes.U16(NDA_VLAN).value_or(0));
    }
  }
  return entries;
}

}  // namespace

void Socket::LockPort(const Link& port, const Mac& mac) {
  const std::string what = Cat("cannot lock bridge port ", Quoted(port.name), " to ", mac);
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
  const auto has_entry = [&](std::uint16_t vlan) {
    return std::ranges::find(entries.vlans, vlan) != entries.vlans.end();
  };
  std::vector<Vlan> vlans = Vlans(*now);
  vlans.push_back({});  // outside of any
  return std::ranges::all_of(vlans, [&](const Vlan& vlan) {
    for (std::uint16_t id = vlan.ids.first; id <= vlan.ids.last; ++id) {
      if (!has_entry(id)) {
        return false;
      }
    }
    return true;
  });
}

}  // namespace nomad_bridge::rtnl
