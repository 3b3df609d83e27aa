#include "plugin/commands/rebuild.h"

#include <algorithm>
#include <utility>

#include "base/list.h"
#include "base/log.h"
#include "firewall/table.h"
#include "plugin/attachment/acquire_addresses.h"
#include "plugin/commands/chained_record.h"
#include "plugin/link/bridge.h"
#include "plugin/link/container.h"
#include "plugin/link/host_veth.h"
#include "plugin/rules/elements.h"

namespace nomad_bridge::commands {
namespace {

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
          state::IntentOf(request, type, config, container).Finished(), std::move(result), config)
          .record;
  record.link.adopted = link::IsAdopted(host.net, record.link.bridge);
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
