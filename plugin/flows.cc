#include "plugin/flows.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "netlink/sysctl.h"

namespace nomad_bridge {

void ForgetStaleFlows(Host& host, const Record& record) {
  if (!record.Has(Part::kPorts)) {
    return;
  }
  std::vector<UdpPort> ports;
  for (const portmap::Mapping& mapping : record.ports) {
    if (mapping.protocol == portmap::Protocol::kUdp) {
      ports.push_back({.family = mapping.guest_ip.family(),
                       .address = mapping.host_ip,
                       .port = mapping.host_port});
    }
  }
  if (ports.empty()) {
    return;
  }
  if (!host.conntrack) {
    host.conntrack = Conntrack::In(host.netns);
  }
  host.conntrack->ForgetUdpFlows(ports);
}

void EnsureLocalhostReaches(const Record& record) {
  const bool has_ipv4_port =
      std::any_of(record.ports.begin(), record.ports.end(), [](const portmap::Mapping& mapping) {
        return mapping.guest_ip.is_ipv4();
      });
  if (!record.snat || !has_ipv4_port) {
    return;
  }
  std::vector<std::string> links = record.host_links;
  if (!record.gate.empty()) {
    links.push_back(record.gate);
  }
  if (!record.bridge.empty() && record.bridge != record.gate) {
    links.push_back(record.bridge);  // with br_netfilter answers are turned back there
  }
  for (const std::string& link : links) {
    EnsureSysctl(Cat("net/ipv4/conf/", link, "/route_localnet"), "1");
  }
}

}  // namespace nomad_bridge
