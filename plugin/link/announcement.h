// Where the addresses of a link are, told to its network.
//
// Called in the network namespace of the link.
// Errors   kKernel.
// Source   ip-sysctl.rst: arp_notify, ndisc_notify.
#pragma once

#include <vector>

#include "base/ip.h"
#include "netlink/rtnl/rtnl.h"

namespace nomad_bridge::link {

// Sets the MAC of `link`, which may be the one that it has, and sends a gratuitous ARP and an
// unsolicited neighbour advertisement, for the families of `addresses`, of all addresses that it
// has. Nothing is sent while the link is down. The link goes on announcing changes of its MAC.
void SetMacAndAnnounce(rtnl::Socket& net,
                       const rtnl::Link& link,
                       const Mac& mac,
                       const std::vector<Cidr>& addresses);

}  // namespace nomad_bridge::link
