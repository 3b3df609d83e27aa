#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "base/undo.h"
#include "plugin/attachment/acquire_addresses.h"
#include "plugin/attachment/leases.h"
#include "plugin/attachment/publish.h"
#include "plugin/attachment/remove.h"
#include "plugin/attachment/repair.h"
#include "plugin/cni/error_list.h"
#include "plugin/commands/commands.h"
#include "plugin/link/bridge.h"
#include "plugin/link/container.h"
#include "plugin/link/container_setup.h"
#include "plugin/link/host_veth.h"
#include "plugin/rules/apply.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/port_side_effects.h"
#include "plugin/state/host.h"

namespace nomad_bridge::commands {
namespace {

// The VLANs of an attachment's port, if the network has any. What a trunk sends without a tag needs
// a home too: VLAN 1, as with the reference plugin.
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
          .vlans = VlansFor(link)};
}

// All that is known before anything is done; AcquireAddresses adds the addresses and what follows
// from them.
state::Record Intend(const cni::Request& request,
                     const cni::PluginType& type,
                     const config::Config& config,
                     const netlink::Netns& container) {
  return {.id = request.id,
          .parts = type.parts,
          .labels = config.labels,
          .netns_path = request.netns_path,
          .netns = container.id(),
          .link = {.bridge = config.link.bridge,
                   .gateway_ifname = config.link.GatewayIfname(),
                   .port = PortFor(config.link),
                   .mac = config.link.mac},
          .ipam = {.data_dir = config.ipam.data_dir},
          .rules = {.ip_masq = config.rules.ip_masq,
                    .snat = config.rules.snat,
                    .masq_all = config.rules.masq_all,
                    .forward_hook = config.rules.forward_hook,
                    .ingress = config.rules.ingress,
                    .firewalld_zone = config.rules.firewalld_zone}};
}

// A default route per family if the network is the way out and no route says so itself.
void AddDefaultRoutes(cni::Result& result) {
  for (const cni::IpConfig& ip : result.ips) {
    if (!ip.gateway) {
      continue;
    }
    const Cidr everything{Cidr{*ip.gateway, 0}.Network(), 0};
    const bool said =
        std::any_of(result.routes.begin(), result.routes.end(), [&](const Route& route) {
          return route.destination == everything && route.gateway;
        });
    if (!said) {
      result.routes.push_back({.destination = everything, .gateway = ip.gateway});
    }
  }
}

// What the container gets: the addresses, with the routes and the DNS that belong to them, on number 2
// of our interfaces.
cni::Result Plan(const config::Config& config, cni::Result addresses) {
  constexpr int kContainerInterface = 2;
  for (cni::IpConfig& ip : addresses.ips) {
    ip.interface = kContainerInterface;
  }
  if (config.link.is_default_gateway) {
    AddDefaultRoutes(addresses);
  }
  if (!config.dns.empty()) {
    addresses.dns = config.dns;
  }
  return addresses;
}

cni::Interface Describe(const rtnl::Link& link, const std::string& sandbox = {}) {
  return {.name = link.name, .mac = link.mac.Text(), .mtu = link.mtu, .sandbox = sandbox};
}

// The interfaces in the order that plugins behind us rely on: bridge, host end, container end, and the
// gateway if it is not the bridge.
std::vector<cni::Interface> Describe(const link::Segment& segment,
                                     const link::VethPair& veth,
                                     const std::string& sandbox) {
  std::vector<cni::Interface> interfaces = {
      Describe(segment.bridge), Describe(veth.host), Describe(veth.container, sandbox)};
  if (segment.gateway.index != segment.bridge.index) {
    interfaces.push_back(Describe(segment.gateway));
  }
  return interfaces;
}

}  // namespace

void AddInterface(const cni::Request& request, const cni::PluginType& type, int out) {
  const config::Config config = config::ParseConfig(request, type);
  state::Host host = state::Host::Open();
  link::Container container = link::OpenContainer(request, host);

  // One command at a time for this attachment. What an earlier ADD of it made goes first; only its
  // address is kept.
  const RangeLock mine = host.records.Lock(request.id);
  const std::optional<state::Record> earlier = host.records.Find(request.id);
  link::RefuseForeignInterface(host, container, request.id, earlier.has_value());
  Undo undo;
  attachment::RemoveEarlier(host, request.id, earlier, config.ipam.data_dir, undo);

  // The intent is on disk before anything new is made, so that a crash from here on can be cleaned
  // up.
  state::Record record = Intend(request, type, config, container.netns);
  cni::Result result =
      Plan(config, attachment::AcquireAddresses(host, request, config, record, earlier));
  undo.Then("remove the record", [&host, id = request.id] { host.records.EnsureGone(id); });
  undo.Then("release the addresses", [record] { attachment::ReleaseAddresses(record); });

  // Shared by every allocation on this node, so it stays even if we fail below.
  const link::Segment segment =
      link::EnsureBridge(host, config.link, record.link.gateways, request.id);
  attachment::RepairPorts(host, segment.bridge, request.id.network);

  link::CreateVeth(host, container, segment.bridge, record, config.link.mtu);
  undo.Then("delete the veth pair",
            [&host, id = request.id] { link::EnsureLinkGone(host, id, true); });
  const link::VethPair veth = link::PlugIn(host, container, record);
  if (type.Provides(cni::Part::kLoopback)) {
    link::BringUpLoopback(container);
  }
  link::ConfigureContainer(host, container, veth, result, config.link);

  // Atomic, and after the link: from here on packets flow.
  undo.Then("withdraw the rules",
            [&host, record] { rules::RemoveElements(host, rules::ElementsOf(record)); });
  attachment::ApplyRules(host, record, firewall::PlanMode::kAssumeAbsent);
  rules::EnsureLocalhostReaches(record);
  rules::ForgetStaleFlows(host, record);

  result.interfaces = Describe(segment, veth, request.netns_path);
  cni::Print(config.prev_result ? cni::Append(result, *config.prev_result) : result,
             request.cni_version,
             out);
  undo.Keep();
}

}  // namespace nomad_bridge::commands
