#include "plugin/link/forwarding.h"

#include "base/log.h"
#include "base/text.h"
#include "netlink/core/sysctl.h"
#include "plugin/link/uplink.h"

namespace nomad_bridge::link {
namespace {

constexpr const char* kIpv4Forwarding = "net/ipv4/ip_forward";
constexpr const char* kIpv6Forwarding = "net/ipv6/conf/all/forwarding";

std::string AcceptRa(const std::string& ifname) {
  return Format("net/ipv6/conf/{}/accept_ra", ifname);
}

// Which must be on. For IPv4 the link decides by which a packet comes in; the node's setting has
// reached those links that were there when it was made.
std::vector<std::string> SettingsFor(const std::string& gateway_ifname,
                                     const std::vector<Cidr>& gateways) {
  std::vector<std::string> settings;
  if (HasFamily(gateways, Family::kIpv4)) {
    settings = {kIpv4Forwarding, Format("net/ipv4/conf/{}/forwarding", gateway_ifname)};
  }
  if (HasFamily(gateways, Family::kIpv6)) {
    settings.emplace_back(kIpv6Forwarding);
  }
  return settings;
}

// Once it forwards, the kernel deletes default routes by router advertisements, and takes no more
// advertisements, on every link but those with accept_ra=2.
void KeepLearntDefaultRoutes(state::Host& host) {
  for (const rtnl::Socket::LearntRoute& learnt : host.net.LearntRoutes()) {
    const std::optional<rtnl::Link> link = host.net.FindLink(learnt.link);
    if (learnt.route.destination.prefix_length == 0 && link &&
        netlink::FindSysctl(AcceptRa(link->name)) == "1") {
      netlink::EnsureSysctl(AcceptRa(link->name), "2");
    }
  }
}

// Whether `link` takes advertisements and must not.
bool MustRefuseAdvertisements(state::Host& host,
                              const rtnl::Link& bridge,
                              const std::string& ifname) {
  return netlink::IsSysctlOn(AcceptRa(ifname)) && !HasUplink(host.net, bridge);
}

}  // namespace

std::vector<std::string> EnsureForwarding(state::Host& host,
                                          const rtnl::Link& gateway,
                                          const std::vector<Cidr>& gateways) {
  std::vector<std::string> repairs;
  for (const std::string& setting : SettingsFor(gateway.name, gateways)) {
    if (netlink::IsSysctlOn(setting)) {
      continue;
    }
    if (setting == kIpv6Forwarding) {
      KeepLearntDefaultRoutes(host);
    }
    netlink::EnsureSysctl(setting, "1");
    repairs.push_back(Cat(setting, ", which was 0"));
  }
  constexpr const char* kDefault = "net/ipv4/conf/default/forwarding";
  if (HasFamily(gateways, Family::kIpv4) && !netlink::IsSysctlOn(kDefault)) {
    LogLine("{} is 0: the node does not forward what comes in by interfaces made from now on",
            kDefault);
  }
  return repairs;
}

std::vector<std::string> DiffForwarding(const std::string& gateway_ifname,
                                        const std::vector<Cidr>& gateways) {
  std::vector<std::string> mismatches;
  for (const std::string& setting : SettingsFor(gateway_ifname, gateways)) {
    if (!netlink::IsSysctlOn(setting)) {
      mismatches.push_back(Cat(setting, " is 0"));
    }
  }
  return mismatches;
}

std::vector<std::string> EnsureNoAdvertisements(state::Host& host,
                                                const rtnl::Link& bridge,
                                                const rtnl::Link& link) {
  if (!MustRefuseAdvertisements(host, bridge, link.name)) {
    return {};
  }
  netlink::EnsureSysctl(AcceptRa(link.name), "0");
  for (const rtnl::Socket::LearntRoute& learnt : host.net.LearntRoutes()) {
    if (learnt.link == link.index) {
      host.net.EnsureGone(learnt);
    }
  }
  return {Format("{}, which was on", AcceptRa(link.name))};
}

std::vector<std::string> DiffAdvertisements(state::Host& host,
                                            const rtnl::Link& bridge,
                                            const std::string& ifname) {
  if (!MustRefuseAdvertisements(host, bridge, ifname)) {
    return {};
  }
  return {Cat(AcceptRa(ifname), " is on")};
}

}  // namespace nomad_bridge::link
