#include "plugin/attachment/prepare.h"

#include <algorithm>
#include <utility>

#include "plugin/attachment/repair.h"
#include "plugin/config/config.h"
#include "plugin/link/bridge.h"
#include "plugin/rules/apply.h"
#include "plugin/rules/converge.h"
#include "plugin/rules/port_checks.h"

namespace nomad_bridge::attachment {
namespace {

// Those that an ADD gives the bridge if it takes its addresses from the first range of each set.
std::vector<Cidr> GatewaysOf(const config::Config& config) {
  std::vector<Cidr> gateways;
  for (const ipam::RangeSet& set : config.ipam.ranges) {
    if (config.link.is_gateway) {
      gateways.push_back({set.front().gateway, set.front().subnet.prefix_length});
    }
  }
  return gateways;
}

// An attachment as its ADD would begin it, for what does not depend on which one it is.
state::Record AnyAttachment(const cni::Request& request,
                            const cni::PluginType& type,
                            const config::Config& config) {
  state::Record record{.id = request.id, .rules = {.forward_hook = config.rules.forward_hook}};
  record.rules.ingress = config.rules.ingress;
  record.rules.firewalld_zone = config.rules.firewalld_zone;
  record.rules.forward_hook.ipv6 = std::ranges::any_of(
      config.ipam.ranges,
      [](const ipam::RangeSet& set) { return !set.front().subnet.address.is_ipv4(); });
  if (type.Provides(cni::Part::kLink)) {
    record.link.bridge = config.link.bridge;
    record.link.gateway_ifname = config.link.GatewayIfname();
    record.link.port.source_check = config.link.source_check != config::SourceCheck::kOff;
  }
  return record.With(type.parts, state::Phase::kMaking);
}

}  // namespace

Prepared PrepareNetwork(state::Host& host,
                        const cni::Request& request,
                        const cni::PluginType& type) {
  const config::Config config = rules::WithPossibleChecks(config::ParseConfig(request, type), host);
  const state::Record record = AnyAttachment(request, type, config);
  Prepared prepared{.gateway_ifname = record.link.gateway_ifname};
  if (type.Provides(cni::Part::kLink)) {
    prepared.gateways = GatewaysOf(config);
    RepairPortsOfNewBridge(
        host, link::EnsureBridge(host, config.link, prepared.gateways, request.id).bridge);
  }
  if (type.ProvidesRules()) {
    state::Checkpoint checkpoint = [&] {
      const RangeLock one_at_a_time = host.records.LockRules();
      return rules::Converge(host, record);
    }();
    rules::UpdateForeignFirewalls(host, record, std::move(checkpoint));
  }
  return prepared;
}

}  // namespace nomad_bridge::attachment
