#include "plugin/commands/intent.h"

#include <algorithm>
#include <utility>

#include "base/list.h"
#include "base/log.h"
#include "firewall/table.h"
#include "plugin/attachment/acquire_addresses.h"
#include "plugin/commands/chained_record.h"
#include "plugin/link/container.h"
#include "plugin/link/host_veth.h"
#include "plugin/rules/elements.h"

namespace nomad_bridge::commands {
namespace {

// Untagged frames of a trunk belong to VLAN 1, as with the reference plugin.
std::optional<rtnl::PortVlans> VlansFor(const config::LinkConfig& link) {
  constexpr std::uint16_t kDefaultVlan = 1;
  if (!link.HasVlans()) {
    return std::nullopt;
  }
  return rtnl::PortVlans{.untagged = link.vlan != 0 ? link.vlan : kDefaultVlan,
                         .tagged = link.vlan_trunk,
                         .keep_default = link.preserve_default_vlan};
}

state::BridgePort PortFor(const config::LinkConfig& link) {
  return {.hairpin = link.hairpin_mode,
          .isolated = link.port_isolation,
          .locked = link.mac_spoof_check,
          .source_check = link.source_check != config::SourceCheck::kOff,
          .vlans = VlansFor(link)};
}

// Whether the kernel has one of the elements of `record` as its own.
bool HasElements(state::Host& host, const state::Record& record) {
  const std::vector<nft::Element> elements = rules::ElementsOf(record);
  const auto owned = std::ranges::find_if(
      elements, [](const nft::Element& element) { return !element.comment.empty(); });
  const std::optional<nft::Element> present =
      owned != elements.end() ? host.nft.FindElement(firewall::TableId(), *owned) : std::nullopt;
  return present && present->owner() == owned->owner();
}

void Keep(state::Host& host, const config::Config& config, const state::Record& record) {
  LogLine("rebuilt the lost record of container '{}'", record.id.container_id);
  if (config.repair_on_check) {
    host.records.Write(record);
  }
}

}  // namespace

state::Record IntentOf(const cni::Request& request,
                       const cni::PluginType& type,
                       const config::Config& config,
                       const netlink::NetnsId& container) {
  const state::Record record{
      .id = request.id,
      .labels = config.labels,
      .netns_path = request.netns_path,
      .netns = container,
      .link = {.bridge = config.link.bridge,
               .mtu = config.link.mtu,
               .force_address = config.link.force_address,
               .promisc_mode = config.link.promisc_mode,
               .gateway_ifname = config.link.GatewayIfname(),
               .port = PortFor(config.link),
               .mac = config.link.mac},
      .ipam = {.data_dir = config.ipam.data_dir, .ranges = config.ipam.ranges},
      .rules = {.ip_masq = config.rules.ip_masq,
                .snat = config.rules.snat,
                .masq_all = config.rules.masq_all,
                .forward_hook = config.rules.forward_hook,
                .ingress = config.rules.ingress,
                .inbound = config.rules.inbound,
                .firewalld_zone = config.rules.firewalld_zone}};
  return record.With(type.parts, state::Phase::kMaking);
}

std::optional<state::Record> RebuildInterface(state::Host& host,
                                              const cni::Request& request,
                                              const cni::PluginType& type,
                                              const config::Config& config,
                                              const netlink::NetnsId& container) {
  if (!link::FindHostVeth(host.net, request.id, link::Recorded::kNo)) {
    return std::nullopt;
  }
  const std::vector<Cidr> addresses = link::AddressesIn(*config.prev_result, request);
  cni::Result result = *config.prev_result;
  std::erase_if(result.ips,
                [&](const cni::IpConfig& ip) { return !Contains(addresses, ip.address); });
  state::Record record =
      attachment::WithAddresses(
          IntentOf(request, type, config, container).Finished(), std::move(result), config)
          .record;
  record.ipam.delegated = cni::FindDelegatedIpam(request, config.ipam.type);
  if (config.ipam.type == cni::kHostLocal) {
    record.ipam.leases = record.ipam.addresses;
  }
  Keep(host, config, record);
  return record;
}

std::optional<state::Record> RebuildRules(state::Host& host,
                                          const cni::Request& request,
                                          const cni::PluginType& type,
                                          const config::Config& config,
                                          const std::optional<state::Record>& found) {
  const std::optional<link::Container> container = link::FindContainer(request, host);
  const bool is_unfinished = found && found->OnlyLive().parts != found->parts;
  if (!container || is_unfinished) {
    return std::nullopt;
  }
  state::Record record =
      WithRules(DescribeChained(host, request, config, container->id, found), type, config.rules);
  state::Record only = record;
  std::erase_if(only.parts, [&](const auto& part) { return !type.Provides(part.first); });
  if (!HasElements(host, only)) {
    return std::nullopt;
  }
  record = record.Finished();
  Keep(host, config, record);
  return record;
}

}  // namespace nomad_bridge::commands
