// A tc filter at a link's ingress. It runs before all hooks of nf_tables, and a flush of the
// ruleset does not remove it. It is a classic BPF program in direct-action mode, which needs
// neither bpf(2) nor a tc action. Its offsets count from the Ethernet header.
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include "base/text.h"
#include "netlink/rtnl/rtnl_impl.h"

namespace nomad_bridge::rtnl {
namespace {

constexpr std::uint32_t kPriority = 0x6e62;  // the filter's priority: far after other filters

constexpr std::uint32_t kIpSource = ETH_HLEN + 12;
constexpr std::uint32_t kIpDestination = ETH_HLEN + 16;

constexpr sock_filter Load(std::uint16_t size, std::uint32_t offset) {
  return {.code = static_cast<std::uint16_t>(BPF_LD | BPF_ABS | size), .k = offset};
}

// Loads what the kernel knows about the packet: `what` is SKF_AD_MARK, for example.
constexpr sock_filter LoadAbout(int what) {
  return Load(BPF_W, static_cast<std::uint32_t>(SKF_AD_OFF + what));
}

constexpr sock_filter IfEqual(std::uint32_t value, std::uint8_t skip, std::uint8_t skip_else) {
  return {.code = BPF_JMP | BPF_JEQ | BPF_K, .jt = skip, .jf = skip_else, .k = value};
}

constexpr sock_filter Return(int action) {
  return {.code = BPF_RET | BPF_K, .k = static_cast<std::uint32_t>(action)};
}

auto LocalhostFilter(std::uint32_t except_mark) {
  constexpr std::uint32_t kLocalhost = 127;
  constexpr std::uint32_t kVlanIdMask = 0xfff;
  return std::to_array<sock_filter>({
      LoadAbout(SKF_AD_PROTOCOL),
      IfEqual(ETH_P_IP, 5, 0),
      // The stack strips any number of tags of VLAN 0. The kernel has removed the first tag by now.
      // A second tag would hide an IP packet from this filter, so a frame with a second tag inside
      // VLAN 0 is dropped.
      IfEqual(ETH_P_8021Q, 1, 0),
      IfEqual(ETH_P_8021AD, 0, 10),
      LoadAbout(SKF_AD_VLAN_TAG),
      {.code = BPF_ALU | BPF_AND | BPF_K, .k = kVlanIdMask},
      IfEqual(0, 6, 7),
      Load(BPF_B, kIpSource),
      IfEqual(kLocalhost, 4, 0),
      Load(BPF_B, kIpDestination),
      IfEqual(kLocalhost, 0, 3),
      LoadAbout(SKF_AD_MARK),
      IfEqual(except_mark, 1, 0),
      Return(TC_ACT_SHOT),
      Return(TC_ACT_UNSPEC),  // go on as if this filter were absent
  });
}

tcmsg HeadOf(const Link& link, std::uint32_t parent) {
  return {.tcm_family = AF_UNSPEC, .tcm_ifindex = link.index, .tcm_parent = parent};
}

netlink::Message QdiscMessage(const Link& link) {
  netlink::Message message(RTM_NEWQDISC, kCreate);
  tcmsg head = HeadOf(link, TC_H_CLSACT);
  head.tcm_handle = TC_H_MAKE(TC_H_CLSACT, 0);
  message.Head(head);
  message.PutText(TCA_KIND, "clsact");
  return message;
}

netlink::Message EmptyFilterMessage(const Link& link, int type, int flags) {
  netlink::Message message(type, flags);
  tcmsg head = HeadOf(link, TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS));
  head.tcm_handle = 1;
  head.tcm_info = TC_H_MAKE(kPriority << 16, htons(ETH_P_ALL));
  message.Head(head);
  message.PutText(TCA_KIND, "bpf");
  return message;
}

netlink::Message FilterMessage(const Link& link, std::uint32_t except_mark) {
  netlink::Message message = EmptyFilterMessage(link, RTM_NEWTFILTER, kCreate);
  const netlink::Nest options(message, TCA_OPTIONS);
  const auto program = LocalhostFilter(except_mark);
  const auto* const bytes = static_cast<const std::uint8_t*>(static_cast<const void*>(&program));
  message.PutU16(TCA_BPF_OPS_LEN, static_cast<std::uint16_t>(program.size()));
  message.PutBytes(TCA_BPF_OPS, {bytes, sizeof program});
  message.PutU32(TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT);
  return message;
}

// Returns whether the link's qdisc for filters has egress filters: the older qdisc "ingress" has
// none, but lists its ingress filters for both directions. Lists all qdiscs, because the kernel
// answers a request for a single qdisc only to listeners.
bool HasEgress(netlink::RequestSocket& socket, const Link& link) {
  netlink::Message request(RTM_GETQDISC, NLM_F_DUMP);
  request.Head(HeadOf(link, 0));
  bool is_clsact = false;
  netlink::ForEachMessage<tcmsg>(
      socket.TransactOrThrow(request, "cannot list the qdiscs", {EOPNOTSUPP}),
      [&](const tcmsg& head, const netlink::Attributes& attributes) {
        is_clsact =
            is_clsact || (head.tcm_ifindex == link.index && attributes.Text(TCA_KIND) == "clsact");
      });
  return is_clsact;
}

}  // namespace

bool Socket::EnsureLocalhostFilter(const Link& link, std::uint32_t except_mark) {
  const std::string what = Format("cannot filter what comes in by '{}'", link.name);
  // ENOENT: no such kind of qdisc or filter. EINVAL: the link has no qdisc for filters yet.
  netlink::Reply reply = socket_.Transact(FilterMessage(link, except_mark), what);
  if (reply.error == EINVAL) {
    reply = socket_.Transact(QdiscMessage(link), what);
    if (reply.error == 0 || reply.error == EEXIST) {
      reply = socket_.Transact(FilterMessage(link, except_mark), what);
    }
  }
  if (reply.error != 0 && reply.error != EEXIST && reply.error != ENOENT &&
      reply.error != EOPNOTSUPP) {
    throw netlink::NetlinkError(what, reply);
  }
  return reply.error == 0 || reply.error == EEXIST;
}

void Socket::EnsureLocalhostFilterGone(const Link& link) {
  // EINVAL: the link has no qdisc for filters.
  socket_.TransactOrThrow(EmptyFilterMessage(link, RTM_DELTFILTER, NLM_F_ACK),
                          Format("cannot remove the filter of '{}'", link.name),
                          {ENOENT, EINVAL, EOPNOTSUPP});
}

std::vector<std::string> Socket::FilteredDirections(const Link& link) {
  std::vector<std::string> directions;
  for (const auto& [name, number] :
       {std::pair{"ingress", TC_H_MIN_INGRESS}, std::pair{"egress", TC_H_MIN_EGRESS}}) {
    if (number == TC_H_MIN_EGRESS && !HasEgress(socket_, link)) {
      continue;
    }
    netlink::Message request(RTM_GETTFILTER, NLM_F_DUMP);
    request.Head(HeadOf(link, TC_H_MAKE(TC_H_CLSACT, number)));
    bool has_others = false;
    netlink::ForEachMessage<tcmsg>(
        socket_.TransactOrThrow(
            request, Format("cannot list the filters of '{}'", link.name), {EOPNOTSUPP}),
        [&](const tcmsg& head, const netlink::Attributes&) {
          has_others = has_others || TC_H_MAJ(head.tcm_info) >> 16U != kPriority;
        });
    if (has_others) {
      directions.emplace_back(name);
    }
  }
  return directions;
}

bool Socket::Discards(const Link& link) {
  if (link.queue != "netem") {
    return link.queue == "blackhole";
  }
  netlink::Message request(RTM_GETQDISC, NLM_F_DUMP);
  request.Head(HeadOf(link, 0));
  bool loses_all = false;
  netlink::ForEachMessage<tcmsg>(
      socket_.TransactOrThrow(request, "cannot list the qdiscs", {EOPNOTSUPP}),
      [&](const tcmsg& head, const netlink::Attributes& attributes) {
        tc_netem_qopt options{};
        const auto bytes = attributes.Bytes(TCA_OPTIONS);
        if (head.tcm_ifindex == link.index && head.tcm_parent == TC_H_ROOT &&
            bytes.size() >= sizeof options) {
          std::memcpy(&options, bytes.data(), sizeof options);
          loses_all = loses_all || options.loss == std::numeric_limits<std::uint32_t>::max();
        }
      });
  return loses_all;
}

bool Socket::LacksLocalhostFilter(const Link& link) {
  const std::string what = Format("cannot read the filter of '{}'", link.name);
  const auto error_of = [&](const netlink::Message& message) {
    return socket_.Transact(message, what).error;
  };
  int error = error_of(EmptyFilterMessage(link, RTM_GETTFILTER, 0));
  if (error == EINVAL) {
    // The link has no qdisc for filters, or a qdisc without filters. The kernel always refuses the
    // next request: with EEXIST if the qdisc exists, with ENOENT if its kind is unknown, otherwise
    // with EINVAL because of its block.
    netlink::Message message = QdiscMessage(link);
    message.PutU32(TCA_INGRESS_BLOCK, 0);
    error = error_of(message);
    if (error != EEXIST) {
      return error == EINVAL;
    }
    error = ENOENT;
  }
  // The kernel always refuses this request, too: with ENOENT if the kind of filter is unknown,
  // otherwise with EINVAL because the filter has no program.
  return error == ENOENT && error_of(EmptyFilterMessage(link, RTM_NEWTFILTER, kCreate)) == EINVAL;
}

}  // namespace nomad_bridge::rtnl
