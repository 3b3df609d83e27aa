// VLANs of bridge ports. RTM_GETVLAN (kernel 5.6) reads them, for one port at a time. RTM_SETLINK
// and RTM_DELLINK change them, by ranges.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>

#include "base/error.h"
#include "base/text.h"
#include "netlink/rtnl/rtnl_impl.h"

namespace nomad_bridge::rtnl {
namespace {

constexpr std::uint16_t kFirstId = 1;
constexpr std::uint16_t kLastId = 4094;

// As many ranges fit into one message: each takes 16 bytes.
constexpr std::size_t kRangesPerMessage = 56;

constexpr unsigned kPvid = BRIDGE_VLAN_INFO_PVID;
constexpr unsigned kUntagged = BRIDGE_VLAN_INFO_UNTAGGED;

// The flags of a port's membership in each VLAN, by VLAN id; nullopt: the port is no member.
using Memberships = std::array<std::optional<unsigned>, kLastId + 1>;

// Returns adjacent ids with equal membership as one range; leaves out ids without membership.
std::vector<Vlan> RangesOf(const Memberships& memberships) {
  std::vector<Vlan> vlans;
  for (std::uint16_t id = kFirstId; id <= kLastId; ++id) {
    const std::optional<unsigned> here = memberships.at(id);
    if (!here) {
      continue;
    }
    if (!vlans.empty() && vlans.back().ids.last == id - 1 && memberships.at(id - 1U) == here) {
      vlans.back().ids.last = id;
    } else {
      vlans.push_back({.ids = {.first = id, .last = id},
                       .pvid = (*here & kPvid) != 0,
                       .untagged = (*here & kUntagged) != 0});
    }
  }
  return vlans;
}

void Fill(Memberships& memberships, const VlanRange& ids, unsigned flags) {
  for (std::uint16_t id = std::max(ids.first, kFirstId); id <= std::min(ids.last, kLastId); ++id) {
    memberships.at(id) = flags;
  }
}

// Returns the memberships that `vlans` describe, for a port that has `now`.
Memberships Wanted(const PortVlans& vlans, const Memberships& now) {
  Memberships wanted = vlans.keep_default ? now : Memberships{};
  for (const VlanRange& ids : vlans.tagged) {
    Fill(wanted, ids, 0);
  }
  if (vlans.untagged != 0) {
    // A port has exactly one PVID; clear the previous one.
    for (std::optional<unsigned>& other : wanted) {
      other = other ? std::optional(*other & ~kPvid) : std::nullopt;
    }
    wanted.at(vlans.untagged) = kPvid | kUntagged;
  }
  return wanted;
}

std::vector<Vlan> List(netlink::RequestSocket& socket, const Link& port) {
  const std::string what = Format("cannot list the VLANs of bridge port '{}'", port.name);
  netlink::Message request(
      RTM_GETVLAN,
      NLM_F_DUMP,
      br_vlan_msg{.family = AF_BRIDGE, .ifindex = static_cast<std::uint32_t>(port.index)});
  // EOPNOTSUPP: this kernel has no VLANs.
  const netlink::Reply reply = socket.TransactOrThrow(request, what, {EOPNOTSUPP});
  std::vector<Vlan> list;
  netlink::ForEachMessage<br_vlan_msg>(reply, [&](const auto&, const auto& attributes) {
    for (const netlink::Attributes& entry : attributes.InsideEach(BRIDGE_VLANDB_ENTRY)) {
      if (const auto info = entry.Number<bridge_vlan_info>(BRIDGE_VLANDB_ENTRY_INFO)) {
        const std::uint16_t last = entry.U16(BRIDGE_VLANDB_ENTRY_RANGE).value_or(info->vid);
        list.push_back({.ids = {.first = info->vid, .last = last},
                        .pvid = (info->flags & kPvid) != 0,
                        .untagged = (info->flags & kUntagged) != 0});
      }
    }
  });
  return list;
}

unsigned FlagsOf(const Vlan& vlan) {
  return (vlan.pvid ? kPvid : 0) | (vlan.untagged ? kUntagged : 0);
}

Memberships Read(netlink::RequestSocket& socket, const Link& port) {
  Memberships memberships{};
  if (port.master == 0 && port.kind != "bridge") {
    return memberships;
  }
  for (const Vlan& each : List(socket, port)) {
    Fill(memberships, each.ids, FlagsOf(each));
  }
  return memberships;
}

void PutRange(netlink::Message& message, const Vlan& vlan) {
  const unsigned flags = FlagsOf(vlan);
  const auto put = [&](std::uint16_t id, unsigned bound) {
    const bridge_vlan_info info{.flags = static_cast<std::uint16_t>(flags | bound), .vid = id};
    std::array<std::uint8_t, sizeof(info)> bytes{};
    std::memcpy(bytes.data(), &info, sizeof(info));
    message.PutBytes(IFLA_BRIDGE_VLAN_INFO, bytes);
  };
  if (vlan.ids.first == vlan.ids.last) {
    put(vlan.ids.first, 0);
  } else {
    put(vlan.ids.first, BRIDGE_VLAN_INFO_RANGE_BEGIN);
    put(vlan.ids.last, BRIDGE_VLAN_INFO_RANGE_END);
  }
}

// Sends `vlans`: RTM_SETLINK adds the port to them, RTM_DELLINK removes it from them.
void Send(netlink::RequestSocket& socket, int type, const Link& port, std::span<const Vlan> vlans) {
  const std::string what = Format("cannot set the VLANs of bridge port '{}'", port.name);
  while (!vlans.empty()) {
    const std::size_t count = std::min(vlans.size(), kRangesPerMessage);
    netlink::Message message(type, kAck, HeadFor(port.index, AF_BRIDGE));
    {
      const netlink::Nest port_part(message, IFLA_AF_SPEC);
      if (port.kind == "bridge") {
        message.PutU16(IFLA_BRIDGE_FLAGS, BRIDGE_FLAGS_SELF);
      }
      for (const Vlan& vlan : vlans.first(count)) {
        PutRange(message, vlan);
      }
    }
    netlink::Reply reply = socket.TransactOrThrow(message, what, {EOPNOTSUPP});
    if (reply.error == EOPNOTSUPP) {
      reply.words = kNoVlans;
      throw netlink::NetlinkError(what, reply);
    }
    vlans = vlans.subspan(count);
  }
}

}  // namespace

std::vector<Vlan> Socket::Vlans(const Link& port) {
  return RangesOf(Read(socket_, port));
}

bool Socket::HasPortVlans(const Link& port, const PortVlans& vlans) {
  const Memberships now = Read(socket_, port);
  return Wanted(vlans, now) == now;
}

void Socket::SetPortVlans(const Link& port, const PortVlans& vlans) {
  const Memberships now = Read(socket_, port);
  const Memberships wanted = Wanted(vlans, now);
  Memberships surplus{};
  Memberships missing{};
  for (std::size_t id = kFirstId; id <= kLastId; ++id) {
    if (now.at(id) && !wanted.at(id)) {
      surplus.at(id) = 0;
    } else if (wanted.at(id) != now.at(id)) {
      missing.at(id) = wanted.at(id);
    }
  }
  Send(socket_, RTM_DELLINK, port, RangesOf(surplus));
  Send(socket_, RTM_SETLINK, port, RangesOf(missing));
}

}  // namespace nomad_bridge::rtnl
