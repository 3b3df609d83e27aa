#include "plugin/link/forwarding.h"

#include <algorithm>

#include "base/log.h"
#include "base/text.h"
#include "netlink/core/sysctl.h"
#include "plugin/link/bridge.h"
#include "plugin/link/uplink.h"

namespace nomad_bridge::link {
namespace {

std::string AcceptRa(const std::string& ifname) {
  return netlink::Ipv6Setting(ifname, "accept_ra");
}

// Returns which of the needed settings are off. For IPv4 the setting of the link through which a
// packet comes in decides. When the node's setting is written, the kernel copies it to all links
// that exist.
std::vector<std::string> FindOff(state::Host& host,
                                 const rtnl::Link& gateway,
                                 const std::vector<Cidr>& gateways) {
  std::vector<std::string> off;
  if (HasFamily(gateways, Family::kIpv4)) {
    if (!host.net.ForwardsAll(Family::kIpv4)) {
      off.emplace_back(ForwardingOf(Family::kIpv4));
    } else if (!gateway.ForwardsIpv4()) {
      off.push_back(netlink::Ipv4Setting(gateway.name, "forwarding"));
    }
  }
  if (HasFamily(gateways, Family::kIpv6) && !host.net.ForwardsAll(Family::kIpv6)) {
    off.emplace_back(ForwardingOf(Family::kIpv6));
  }
  return off;
}

// When the kernel begins to forward IPv6, it deletes default routes learnt from router
// advertisements and accepts no more advertisements, except on links with accept_ra=2. At boot none
// may have arrived yet, so a missing route does not show that a link needs none.
void KeepAdvertisements(state::Host& host) {
  for (const rtnl::Link& link : Uplinks(host.net.Links())) {
    if (link.ipv6 && link.ipv6->accept_ra == 1) {
      netlink::EnsureSysctl(AcceptRa(link.name), "2");
    }
  }
}

// Logs that the node now routes between its uplinks, which an administrator may not expect from a
// setting made for allocations.
void LogRoutedUplinks(state::Host& host) {
  const std::vector<std::string> uplinks = RoutedUplinks(host, host.net.Links());
  if (uplinks.size() > 1) {
    LogLine("{} is on now: this node also routes between '{}' and '{}', unless a firewall drops it",
            ForwardingOf(Family::kIpv4),
            uplinks[0],
            uplinks[1]);
  }
}

void RefuseAdvertisements(state::Host& host, const rtnl::Link& link) {
  netlink::SetOneSysctlIfPossible(AcceptRa(link.name), "0");
  if (!link.up) {
    return;  // the kernel has deleted its routes, or it is new
  }
  for (const rtnl::Socket::LearntRoute& learnt : host.net.LearntRoutes()) {
    if (learnt.link == link.index) {
      host.net.EnsureGone(learnt);
    }
  }
}

}  // namespace

const char* ForwardingOf(Family family) {
  return family == Family::kIpv4 ? "net/ipv4/ip_forward" : "net/ipv6/conf/all/forwarding";
}

Finding ForwardingOff(const std::string& setting, const std::string& owner) {
  return {.area = Finding::Area::kForwarding,
          .owner = owner,
          .text = Format("{} is 0: packets for containers are not forwarded", setting),
          .fix = Cat("sysctl -w ", ShellWord(Cat(setting, "=1")))};
}

std::vector<std::string> RoutedUplinks(state::Host& host, const std::vector<rtnl::Link>& links) {
  std::vector<std::string> names;
  for (const rtnl::Link& link : Uplinks(links)) {
    if (link.up && HasFamily(host.net.Addresses(link), Family::kIpv4)) {
      names.push_back(link.name);
    }
  }
  std::ranges::sort(names);
  return names;
}

void CheckForwarding(state::Host& host,
                     const rtnl::Link& gateway,
                     const std::vector<Cidr>& gateways,
                     Findings& findings) {
  for (const std::string& setting : FindOff(host, gateway, gateways)) {
    findings.Add(ForwardingOff(setting, gateway.name), [&] {
      if (setting == ForwardingOf(Family::kIpv6)) {
        KeepAdvertisements(host);
      }
      netlink::EnsureSysctl(setting, "1");
      if (setting == ForwardingOf(Family::kIpv4)) {
        LogRoutedUplinks(host);
      }
    });
  }
  if (findings.is_repairing() && HasFamily(gateways, Family::kIpv4) &&
      !host.net.ForwardsByDefault(Family::kIpv4)) {
    LogLine("{} is 0: the node does not forward what comes in by interfaces made from now on",
            netlink::Ipv4Setting("default", "forwarding"));
  }
}

void CheckAdvertisements(state::Host& host,
                         const rtnl::Link& bridge,
                         const rtnl::Link& link,
                         Findings& findings) {
  // The setting first: it is part of `link`. To find an uplink takes a query.
  if (link.ipv6 && link.ipv6->accept_ra != 0 && IsOursAlone(host.net, bridge)) {
    findings.Add({Finding::Area::kBridge, link.name, Cat(AcceptRa(link.name), " is on")},
                 [&] { RefuseAdvertisements(host, link); });
  }
}

}  // namespace nomad_bridge::link
