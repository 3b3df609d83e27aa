// Bridge ports that let only one MAC in: a locked port drops whatever has a source MAC that the
// bridge does not know to live there, and with learning off it knows only what it is told.
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

// Tells the bridge that `mac` lives behind `port`. With no VLAN said the kernel notes it for each
// that the port has, and for frames outside of any.
netlink::Message ResidenceMessage(const Link& port, const Mac& mac) {
  netlink::Message message(RTM_NEWNEIGH, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE);
  ndmsg head = NeighbourHead(port);
  head.ndm_state = NUD_NOARP;  // does not age
  // Sticky, or the first frame from elsewhere that bears this MAC would move it there.
  head.ndm_flags = NTF_MASTER | NTF_STICKY;
  message.Head(head);
  message.PutBytes(NDA_LLADDR, mac.bytes);
  return message;
}

netlink::Message LockMessage(const Link& port) {
  netlink::Message message(RTM_SETLINK, kAck);
  message.Head(HeadFor(port.index, AF_BRIDGE));
  const netlink::Nest info(message, IFLA_PROTINFO);
  // Frames to link-local groups are learned from even at a locked port: by them a container could draw
  // a neighbour's traffic to itself.
  message.PutU8(IFLA_BRPORT_LEARNING, 0);
  message.PutU8(IFLA_BRPORT_LOCKED, 1);
  // What it has learned so far would be let in, too.
  message.PutU8(IFLA_BRPORT_FLUSH, 1);
  return message;
}

// What the bridge has noted about the hosts behind a port.
struct FdbEntries {
  std::vector<std::uint16_t> vlans;  // those in which it was told of the MAC; 0: outside of any
  bool learned = false;              // it has learned of some host by itself
};

FdbEntries FindResidents(netlink::RequestSocket& socket, const Link& port, const Mac& mac) {
  netlink::Message question(RTM_GETNEIGH, NLM_F_DUMP);
  question.Head(NeighbourHead(port));
  FdbEntries residents;
  for (const netlink::NlMessage& message : socket.TransactOrThrow(
           question, Cat("cannot list the MACs behind bridge port ", Quoted(port.name)))) {
    const ndmsg* const head = netlink::HeadOf<ndmsg>(nlmsg_hdr(message.get()));
    const netlink::Attributes attributes(nlmsg_hdr(message.get()), sizeof(ndmsg));
    const bool is_the_bridges = attributes.U32(NDA_MASTER).has_value();
    if (head == nullptr || head->ndm_ifindex != port.index || !is_the_bridges) {
      continue;
    }
    if ((head->ndm_state & (NUD_REACHABLE | NUD_STALE)) != 0) {
      residents.learned = true;
    } else if (head->ndm_state == NUD_NOARP &&
               std::ranges::equal(attributes.Bytes(NDA_LLADDR), mac.bytes)) {
      residents.vlans.push_back(attributes.U16(NDA_VLAN).value_or(0));
    }
  }
  return residents;
}

}  // namespace

void Socket::LockPort(const Link& port, const Mac& mac) {
  const std::string what = Cat("cannot lock bridge port ", Quoted(port.name), " to ", mac);
  // In this order, so that a running container's own frames are never dropped.
  impl_->socket.TransactOrThrow(ResidenceMessage(port, mac), what);
  impl_->socket.TransactOrThrow(LockMessage(port), what);
  // An older kernel passes over the wish without a word.
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
  const FdbEntries residents = FindResidents(impl_->socket, *now, mac);
  if (residents.learned) {
    return false;
  }
  const auto has_entry = [&](std::uint16_t vlan) {
    return std::ranges::find(residents.vlans, vlan) != residents.vlans.end();
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
