#include "plugin/rules/port_side_effects.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "netlink/core/sysctl.h"

namespace nomad_bridge::rules {

void ForgetStaleFlows(state::Host& host, const state::Record& record) {
  if (!record.Has(cni::Part::kPorts)) {
    return;
  }
  std::vector<conntrack::UdpPort> ports;
  for (const portmap::DnatEntry& mapping : record.rules.ports) {
    if (mapping.protocol == portmap::Protocol::kUdp) {
      ports.push_back({.family = mapping.container_ip.family(),
                       .address = mapping.host_ip,
                       .port = mapping.host_port});
    }
  }
  if (ports.empty()) {
    return;
  }
  if (!host.conntrack) {
    host.conntrack = conntrack::Conntrack::In(host.netns);
  }
  host.conntrack->ForgetUdpFlows(ports);
}

void EnsureLocalhostReaches(const state::Record& record) {
  const bool has_ipv4_port = std::ranges::any_of(
      record.rules.ports,
      [](const portmap::DnatEntry& mapping) { return mapping.container_ip.is_ipv4(); });
  if (!record.rules.snat || !has_ipv4_port) {
    return;
  }
  std::vector<std::string> links = record.link.foreign_host_ifnames;
  if (!record.link.gateway_ifname.empty()) {
    links.push_back(record.link.gateway_ifname);
  }
  if (!record.link.bridge.empty() && record.link.bridge != record.link.gateway_ifname) {
    links.push_back(record.link.bridge);  // with br_netfilter answers are translated there
  }
  for (const std::string& link : links) {
    netlink::EnsureSysctl(Cat("net/ipv4/conf/", link, "/route_localnet"), "1");
  }
}

}  // namespace nomad_bridge::rules
