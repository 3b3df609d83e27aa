#include "plugin/rules/stale_flows.h"

#include <map>
#include <optional>
#include <vector>

#include "base/ip.h"

namespace nomad_bridge::rules {
namespace {

// The flows that a change concerns. `untranslated`: only those that began while the rules were
// away.
class FlowList {
 public:
  FlowList(state::Host& host, bool untranslated) : host_(host), untranslated_(untranslated) {}

  // To each UDP port of `record`, on the addresses of the node where it is published.
  void AddTowards(const state::Record& record) {
    for (const portmap::DnatEntry& port : record.rules.ports) {
      if (port.protocol != portmap::Protocol::kUdp) {
        continue;
      }
      const Family family = port.container_ip.family();
      for (const Ip& local : port.host_ip ? std::vector{*port.host_ip} : Local(family)) {
        flows_.push_back({.family = family,
                          .destination = local,
                          .port = port.host_port,
                          .untranslated = untranslated_});
      }
    }
  }
  void AddFrom(const Ip& container_ip) {
    flows_.push_back(
        {.family = container_ip.family(), .source = container_ip, .untranslated = untranslated_});
  }
  void AddAnsweredBy(const Ip& container_ip) {
    flows_.push_back({.family = container_ip.family(), .answered_by = container_ip});
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
  // Listed when they are first needed.
  const std::vector<Ip>& Local(Family family) {
    std::optional<std::vector<Ip>>& addresses = local_[family];
    if (!addresses) {
      addresses = host_.net.LocalAddresses(family);
    }
    return *addresses;
  }

  state::Host& host_;
  bool untranslated_;
  std::vector<conntrack::UdpFlows> flows_;
  std::map<Family, std::optional<std::vector<Ip>>> local_;
};

}  // namespace

void ForgetStaleFlows(state::Host& host, const state::Record& record, const cni::Parts& parts) {
  FlowList flows(host, false);
  if (parts.contains(cni::Part::kPorts) && record.Has(cni::Part::kPorts)) {
    flows.AddTowards(record);
  }
  if (parts.contains(cni::Part::kAddress)) {
    for (const Ip& address : AddressesOnly(record.ipam.addresses)) {
      flows.AddFrom(address);
      flows.AddAnsweredBy(address);
    }
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

}  // namespace nomad_bridge::rules
