#include "plugin/rules/port_side_effects.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/ip.h"
#include "base/log.h"
#include "base/text.h"
#include "firewall/table.h"
#include "netlink/core/sysctl.h"

namespace nomad_bridge::rules {

namespace {

// The flows that a change concerns. `untranslated`: only those that began while the rules were away.
class FlowList {
 public:
  FlowList(state::Host& host, bool untranslated) : host_(host), untranslated_(untranslated) {}

  // To each UDP port of `record`, on the addresses where it is published.
  void AddTowards(const state::Record& record) {
    for (const portmap::DnatEntry& port : record.rules.ports) {
      if (port.protocol == portmap::Protocol::kUdp) {
        AddTowards(port);
      }
    }
  }
  void AddFrom(const Ip& container_ip) {
    flows_.push_back(
        {.family = container_ip.family(), .source = container_ip, .untranslated = untranslated_});
  }
  void Forget() const {
    if (flows_.empty()) {
      return;
    }
    if (!host_.conntrack) {
      host_.conntrack = conntrack::Conntrack::In(host_.netns);
    }
    host_.conntrack->Forget(flows_);
  }

 private:
  void AddTowards(const portmap::DnatEntry& port) {
    conntrack::UdpFlows flow{.family = port.container_ip.family(),
                             .destination = port.host_ip,
                             .port = port.host_port,
                             .untranslated = untranslated_};
    if (port.host_ip || flow.family == Family::kIpv6) {
      flows_.push_back(flow);
      return;
    }
    if (!ipv4_addresses_) {
      ipv4_addresses_ = host_.net.LocalIpv4Addresses();
    }
    for (const Ip& local : *ipv4_addresses_) {
      flow.destination = local;
      flows_.push_back(flow);
    }
  }

  state::Host& host_;
  bool untranslated_;
  std::vector<conntrack::UdpFlows> flows_;
  std::optional<std::vector<Ip>> ipv4_addresses_;  // of the node, listed when first needed
};

std::string RouteLocalnet(const std::string& link) {
  return Cat("net/ipv4/conf/", link, "/route_localnet");
}

// By which answers of published ports to 127.0.0.1 come.
std::vector<std::string> LinksForLocalhost(const state::Record& record) {
  const bool has_ipv4_port = std::ranges::any_of(
      record.rules.ports,
      [](const portmap::DnatEntry& mapping) { return mapping.container_ip.is_ipv4(); });
  if (!record.rules.snat || !has_ipv4_port) {
    return {};
  }
  std::vector<std::string> links = record.link.foreign_host_ifnames;
  if (!record.link.gateway_ifname.empty()) {
    links.push_back(record.link.gateway_ifname);
  }
  if (!record.link.bridge.empty() && record.link.bridge != record.link.gateway_ifname) {
    links.push_back(record.link.bridge);  // with br_netfilter answers are translated there
  }
  return links;
}

}  // namespace

void ForgetStaleFlows(state::Host& host, const state::Record& record) {
  FlowList flows(host, false);
  if (record.Has(cni::Part::kPorts)) {
    flows.AddTowards(record);
  }
  flows.Forget();
}

void ForgetUntranslatedFlows(state::Host& host, const std::vector<state::Record>& records) {
  FlowList flows(host, true);
  for (const state::Record& record : records) {
    if (record.IsLive(cni::Part::kPorts)) {
      flows.AddTowards(record);
    }
    if (record.IsLive(cni::Part::kMasquerade) && record.rules.ip_masq) {
      for (const Ip& address : AddressesOnly(record.ipam.addresses)) {
        flows.AddFrom(address);
      }
    }
  }
  flows.Forget();
}

void EnsureLocalhostReaches(state::Host& host, const state::Record& record) {
  for (const std::string& link : LinksForLocalhost(record)) {
    const std::optional<rtnl::Link> present = host.net.FindLink(link);
    if (present && !host.net.EnsureLocalhostFilter(*present, firewall::kLocalhostAnswerMark)) {
      LogLine(
          "no tc filter on '{}' (the kernel lacks sch_ingress or cls_bpf): when the firewall is "
          "flushed, allocations reach this node's 127.0.0.1",
          link);
    }
    netlink::EnsureSysctl(RouteLocalnet(link), "1");
  }
}

std::vector<std::string> DiffLocalhostReaches(state::Host& host, const state::Record& record) {
  std::vector<std::string> mismatches;
  for (const std::string& link : LinksForLocalhost(record)) {
    if (!netlink::IsSysctlOn(RouteLocalnet(link))) {
      mismatches.push_back(Cat(RouteLocalnet(link), " is 0"));
    }
    const std::optional<rtnl::Link> present = host.net.FindLink(link);
    if (present && host.net.LacksLocalhostFilter(*present)) {
      mismatches.push_back(Format(
          "the tc filter of '{}' that keeps this node's 127.0.0.1 to itself is missing", link));
    }
  }
  return mismatches;
}

}  // namespace nomad_bridge::rules
