#include "plugin/rules/localhost.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "firewall/table.h"
#include "netlink/core/sysctl.h"

namespace nomad_bridge::rules {
namespace {

std::string RouteLocalnet(const std::string& link) {
  return netlink::Ipv4Setting(link, "route_localnet");
}

// Returns the links by which answers of ports published on 127.0.0.1 come back.
std::vector<std::string> LinksForLocalhost(const state::Record& record) {
  if (!HasLocalhostPorts(record)) {
    return {};
  }
  std::vector<std::string> links = record.link.foreign_host_ifnames;
  if (!record.link.gateway_ifname.empty()) {
    links.push_back(record.link.gateway_ifname);
  }
  if (!record.link.bridge.empty() && record.link.bridge != record.link.gateway_ifname) {
    links.push_back(record.link.bridge);  // with br_netfilter, answers are translated there
  }
  return links;
}

void EnsureFilter(state::Host& host, const rtnl::Link& link) {
  if (!host.net.EnsureLocalhostFilter(link, firewall::kLocalhostAnswerMark)) {
    LogLine(
        "no tc filter on '{}' (the kernel lacks sch_ingress or cls_bpf): when the firewall is "
        "flushed, allocations reach this node's 127.0.0.1",
        link.name);
  }
}

}  // namespace

bool HasLocalhostPorts(const state::Record& record) {
  return record.IsLive(cni::Part::kPorts) && record.rules.snat &&
         std::ranges::any_of(record.rules.ports, [](const portmap::DnatEntry& mapping) {
           return mapping.container_ip.is_ipv4();
         });
}

void CheckLocalhost(state::Host& host, const state::Record& record, Findings& findings) {
  for (const std::string& name : LinksForLocalhost(record)) {
    const std::optional<rtnl::Link> link = host.net.FindLink(name);
    if (!link) {
      continue;  // the check of the link reports it
    }
    // The filter comes before the setting. With only the setting, after a flush of the rules,
    // containers would reach what listens on the node's 127.0.0.1.
    if (host.net.LacksLocalhostFilter(*link)) {
      findings.Add(
          {Finding::Area::kLocalhost,
           name,
           Format("the tc filter of '{}' that keeps this node's 127.0.0.1 to itself is missing",
                  name)},
          [&] { EnsureFilter(host, *link); });
    }
    if ((!link->ipv4 || !link->ipv4->route_localnet) &&
        !netlink::IsSysctlOn(RouteLocalnet("all"))) {
      findings.Add({Finding::Area::kLocalhost, name, Cat(RouteLocalnet(name), " is 0")}, [&] {
        EnsureFilter(host, *link);  // logs a line if this kernel has none
        netlink::EnsureSysctl(RouteLocalnet(name), "1");
      });
    }
  }
}

}  // namespace nomad_bridge::rules
