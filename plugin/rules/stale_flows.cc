#include "plugin/rules/stale_flows.h"

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

}  // namespace nomad_bridge::rules
