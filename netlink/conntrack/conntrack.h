// Deletes conntrack entries of UDP flows that would bypass a change of a published port.
//
// Why     A UDP flow that was seen before the port was published (or while it belonged to another
//         allocation) has a conntrack entry without, or with the wrong, translation; as long as
//         packets come, it never expires.
// Shapes  Ports in host byte order.
// Match   original direction: UDP to the host's port, and to the host address if it was published
//         for one only. Never the allocation's own port: that would cut connections of others.
// Socket  Best closed last: closing a NETLINK_NETFILTER socket waits until all that was deleted from
//         nf_tables has been freed, some 10 ms.
// Cost    A walk of the whole table (262,144 buckets on a machine of 4 GB): 0.2 ms per port where the
//         kernel deletes by filter (6.11); else, and for IPv6 ports of one host address, 10 ms per family.
// Kernel  Without CONFIG_NF_CT_NETLINK nothing is deleted, and that is no error.
// Errors  kKernel, kTryAgain as in request_socket.h. An entry that goes away meanwhile is success,
//         and so is one that a flowtable holds, which cannot be deleted (EBUSY).
// Source  linux/netfilter/nfnetlink_conntrack.h; CTA_FILTER narrows a list since kernel 5.8 and a
//         deletion since 6.11.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/ip.h"
#include "netlink/core/netns.h"
#include "netlink/core/request_socket.h"

namespace nomad_bridge::conntrack {

struct UdpPort {
  Family family = Family::kIpv4;
  std::optional<Ip> address;
  std::uint16_t port = 0;
};

class Conntrack {
 public:
  [[nodiscard]] static Conntrack In(const netlink::Netns& ns);

  // Removes every matching entry.
  void ForgetUdpFlows(const std::vector<UdpPort>& ports);

  // The same for kernels before 6.11: lists the entries and deletes them one by one.
  // ForgetUdpFlows() calls it where it has to.
  void ForgetUdpFlowsOneByOne(const std::vector<UdpPort>& ports);

 private:
  explicit Conntrack(netlink::RequestSocket socket) : socket_(std::move(socket)) {}

  netlink::RequestSocket socket_;
};

}  // namespace nomad_bridge::conntrack
