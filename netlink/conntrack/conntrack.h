// Forgetting connections: UDP entries that would keep sending a published port's packets to where
// it used to lead.
//
// Why     A UDP flow that was seen before the port was published (or while it belonged to another
//         allocation) has a conntrack entry without, or with the wrong, translation; as long as
//         packets come, it never expires.
// Match   original direction: protocol UDP, destination port = the host's port, and the destination
//         address too if the port was published for one host address only. Never the allocation's
//         own port: that would cut connections of others.
// Socket  Stays open as long as the object, and is best closed last: closing one of nf_tables' protocol
//         waits until all that was deleted from nf_tables has been freed, some 10 ms.
// Cost    The kernel walks its whole table (262,144 buckets on a machine of 4 GB): 0.2 ms per port
//         where it can delete by filter, since 6.11; before, and for IPv6 ports of one host address
//         only, 10 ms per family to list them.
// Kernel  Without CONFIG_NF_CT_NETLINK nobody can forget anything, and nothing is.
// Errors  kKernel. An entry that goes away by itself meanwhile is success, and so is one that a
//         flowtable holds, which nobody can delete.
// Source  linux/netfilter/nfnetlink_conntrack.h; CTA_FILTER narrows a list since kernel 5.8 and a
//         deletion since 6.11.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/ip.h"
#include "netlink/core/netns.h"

namespace nomad_bridge::conntrack {

struct UdpPort {
  Family family = Family::kIpv4;
  std::optional<Ip> address;
  std::uint16_t port = 0;
};

class Conntrack {
 public:
  [[nodiscard]] static Conntrack In(const netlink::Netns& ns);
  Conntrack(Conntrack&&) noexcept;
  Conntrack& operator=(Conntrack&&) noexcept;
  Conntrack(const Conntrack&) = delete;
  Conntrack& operator=(const Conntrack&) = delete;
  ~Conntrack();

  // Removes every matching entry.
  void ForgetUdpFlows(const std::vector<UdpPort>& ports);

  // The same in the way of kernels before 6.11: lists the entries and deletes one by one.
  // ForgetUdpFlows() comes to it by itself where it has to.
  void ForgetUdpFlowsOneByOne(const std::vector<UdpPort>& ports);

 private:
  class Impl;

  explicit Conntrack(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nomad_bridge::conntrack
