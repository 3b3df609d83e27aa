// Forgetting connections: UDP entries that would keep sending a published port's packets to where it used to lead.
//
// Why     A UDP flow that was seen before the port was published (or while it belonged to another allocation) has a
//         conntrack entry without, or with the wrong, translation; as long as packets come, it never expires.
// Match   original direction: protocol UDP, destination port = the host's port, and the destination address too if the
//         port was published for one host address only. Never the allocation's own port: that would cut
//         connections of others.
// Errors  kKernel. An entry that goes away by itself meanwhile is success.
// Source  linux/netfilter/nfnetlink_conntrack.h; CTA_FILTER (kernel 5.8) narrows the dump; older ones send all.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ip.h"
#include "netlink/netns.h"

namespace nomad_bridge {

struct UdpPort {
  Family family = Family::kIpv4;
  std::optional<Ip> address;
  std::uint16_t port = 0;
};

// Removes every matching entry of namespace `ns`; returns how many there were. No ports: no work at all.
int ForgetUdpFlows(const Netns& ns, const std::vector<UdpPort>& ports);

}  // namespace nomad_bridge
