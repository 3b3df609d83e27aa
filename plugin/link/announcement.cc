#include "plugin/link/announcement.h"

#include "netlink/core/sysctl.h"

namespace nomad_bridge::link {

void SetMacAndAnnounce(rtnl::Socket& net,
                       const rtnl::Link& link,
                       const Mac& mac,
                       const std::vector<Cidr>& addresses) {
  if (HasFamily(addresses, Family::kIpv4)) {
    netlink::SetSysctlIfPresent(netlink::Ipv4Setting(link.name, "arp_notify"), "1");
  }
  if (HasFamily(addresses, Family::kIpv6)) {
    netlink::SetSysctlIfPresent(netlink::Ipv6Setting(link.name, "ndisc_notify"), "1");
  }
  // The kernel announces addresses when the MAC is set, even to the same one.
  net.Change(link, {.mac = mac});
}

}  // namespace nomad_bridge::link
