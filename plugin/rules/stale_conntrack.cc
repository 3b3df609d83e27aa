#include "plugin/rules/stale_conntrack.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/ip.h"
#include "netlink/sockets/listeners.h"

namespace nomad_bridge::rules {
namespace {

using conntrack::Which;

// The flows whose conntrack entries are deleted.
class FlowList {
 public:
  explicit FlowList(state::Host& host) : host_(host) {}

  // Adds the flows to each UDP port of `record`, on the node's addresses where it is published.
  void AddTowards(const state::Record& record, Which which) {
    for (const portmap::DnatEntry& port : record.rules.ports) {
      if (port.protocol == Protocol::kUdp) {
        AddTowards(port, which);
      }
    }
  }
  void AddFrom(const Ip& container_ip, Which which) {
    flows_.push_back({.family = container_ip.family(), .source = container_ip, .which = which});
  }
  void AddAnsweredBy(const Ip& container_ip) {
    flows_.push_back({.family = container_ip.family(), .answered_by = container_ip});
  }
  void Delete() const {
    if (flows_.empty()) {
      return;
    }
    // Opened only now: most changes concern no UDP flow.
    if (!host_.conntrack) {
      host_.conntrack = conntrack::Conntrack::In(host_.netns);
    }
    host_.conntrack->Forget(flows_);
  }

 private:
  void AddTowards(const portmap::DnatEntry& port, Which which) {
    conntrack::UdpFlows flow{.family = port.container_ip.family(),
                             .destination = port.host_ip,
                             .port = port.host_port,
                             .which = which};
    if (port.host_ip) {
      flows_.push_back(flow);
      return;
    }
    // Conntrack finds entries of an IPv6 address only in a dump of all entries, which takes longer
    // than the rest of an ADD. So it is done only if the node itself may have answered.
    if (flow.family == Family::kIpv4 || HasListener(port.host_port)) {
      for (const Ip& local : OfNode()) {
        if (local.family() == flow.family) {
          flow.destination = local;
          flows_.push_back(flow);
        }
      }
      return;
    }
    flow.which = Which::kUnanswered;  // answered flows that lead elsewhere must stay
    flows_.push_back(flow);
    if (which == Which::kAll) {
      flow.which = Which::kRedirected;
      flows_.push_back(flow);
    }
  }
  [[nodiscard]] bool HasListener(std::uint16_t port) {
    const std::vector<sockets::Listener>& all = host_.Listeners(Protocol::kUdp);
    return std::ranges::find(all, port, &sockets::Listener::port) != all.end();
  }
  // Lists the node's addresses once, when they are first needed.
  const std::set<Ip>& OfNode() {
    if (!of_node_) {
      of_node_ = host_.net.AllAddresses();
    }
    return *of_node_;
  }

  state::Host& host_;
  std::vector<conntrack::UdpFlows> flows_;
  std::optional<std::set<Ip>> of_node_;
};

}  // namespace

// Deletes both directions, because in a translated flow only the answer has the container's
// address.
void DeleteStaleConntrackOf(state::Host& host, const Ip& address) {
  FlowList flows(host);
  flows.AddFrom(address, Which::kAll);
  flows.AddAnsweredBy(address);
  flows.Delete();
}

void DeleteStaleConntrack(state::Host& host, const state::Record& record, const cni::Parts& parts) {
  FlowList flows(host);
  if (parts.contains(cni::Part::kPorts) && record.Has(cni::Part::kPorts)) {
    flows.AddTowards(record, Which::kAll);
  }
  for (const Ip& address : AddressesOnly(record.ipam.addresses)) {
    if (parts.contains(cni::Part::kAddress) && record.ipam.IsSoonGivenAgain(address)) {
      flows.AddFrom(address, Which::kAll);
      flows.AddAnsweredBy(address);
    }
  }
  flows.Delete();
}

void DeleteUntranslatedConntrack(state::Host& host, const std::vector<state::Record>& records) {
  FlowList flows(host);
  for (const state::Record& record : records) {
    if (record.IsLive(cni::Part::kPorts)) {
      flows.AddTowards(record, Which::kUntranslated);
    }
    if (record.IsLive(cni::Part::kMasquerade) && record.rules.ip_masq) {
      for (const Ip& address : AddressesOnly(record.ipam.addresses)) {
        flows.AddFrom(address, Which::kUntranslated);
      }
    }
  }
  flows.Delete();
}

}  // namespace nomad_bridge::rules
