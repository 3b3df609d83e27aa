#include <algorithm>
#include <ctime>
#include <utility>

#include "base/text.h"
#include "base/undo.h"
#include "plugin/attachment/acquire_addresses.h"
#include "plugin/attachment/leases.h"
#include "plugin/attachment/publish.h"
#include "plugin/attachment/remove.h"
#include "plugin/attachment/segment.h"
#include "plugin/commands/commands.h"
#include "plugin/commands/described_record.h"
#include "plugin/commands/session.h"
#include "plugin/link/bridge.h"
#include "plugin/link/container_setup.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/liveness.h"
#include "plugin/link/uplink.h"

namespace nomad_bridge::commands {
namespace {

// Adds a default route for each family that has a gateway and no default route.
cni::Result WithDefaultRoutes(cni::Result result) {
  for (const cni::IpConfig& ip : result.ips) {
    if (!ip.gateway) {
      continue;
    }
    const Cidr everything{Cidr{*ip.gateway, 0}.Network(), 0};
    const bool is_there = std::ranges::any_of(result.routes, [&](const Route& route) {
      return route.destination == everything && route.gateway;
    });
    if (!is_there) {
      result.routes.push_back({.destination = everything, .gateway = ip.gateway});
    }
  }
  return result;
}

// Makes ADD's result from IPAM's answer: puts the addresses on the container's interface, and adds
// the network's default routes and DNS. The interfaces are added once they exist: InterfacesOf().
cni::Result ResultFor(cni::Result ipam, const config::Config& config) {
  constexpr int kContainerInterface = 2;  // its index among InterfacesOf()
  for (cni::IpConfig& ip : ipam.ips) {
    ip.interface = kContainerInterface;
  }
  if (!config.dns.empty()) {
    ipam.dns = config.dns;
  }
  return config.link.is_default_gateway ? WithDefaultRoutes(std::move(ipam)) : ipam;
}

cni::Interface Describe(const rtnl::Link& link, const std::string& sandbox = {}) {
  return {.name = link.name, .mac = link.mac.Text(), .mtu = link.mtu, .sandbox = sandbox};
}

// Returns the interfaces in the order on which later plugins rely: bridge, host end, container end,
// and the gateway if it is not the bridge.
std::vector<cni::Interface> InterfacesOf(const link::BridgeAndGateway& links,
                                         const link::VethPair& veth,
                                         const std::string& sandbox) {
  std::vector<cni::Interface> interfaces = {
      Describe(links.bridge), Describe(veth.host), Describe(veth.container, sandbox)};
  if (links.gateway.index != links.bridge.index) {
    interfaces.push_back(Describe(links.gateway));
  }
  return interfaces;
}

// Throws kConflict if another interface on the bridge has the MAC: two ports with the same MAC are
// both unreachable. Our record is already on disk, so two concurrent ADDs see each other.
void RequireFreeMac(state::Host& host, const config::Config& config, const state::Record& record) {
  if (!config.link.mac) {
    return;  // the MAC is derived from the attachment's own data
  }
  for (const state::Record& other : host.records.All()) {
    if (other.id != record.id && other.Has(cni::Part::kLink) &&
        other.link.bridge == record.link.bridge && other.ContainerMac() == *config.link.mac &&
        link::IsAlive(host, other)) {
      throw cni::TakenBy(Cat("MAC ", *config.link.mac), other.id, other.labels, {});
    }
  }
  if (const auto holder = link::FindMacHolder(host.net, record.link.bridge, *config.link.mac)) {
    throw Error(Code::kConflict,
                Format("MAC {} is taken by {}", *config.link.mac, *holder),
                Format("on bridge '{}'", record.link.bridge));
  }
}

// All attachments of this node share the bridge, so nothing undoes its creation.
link::BridgeAndGateway EnsureBridge(state::Host& host, const state::Record& record) {
  attachment::EnsureSegment(host, record.Finished());
  return link::RequireBridgeAndGateway(host, record.link);
}

// Returns the MTU of the veth pair. With a smaller MTU than the bridge's, the kernel would lower
// the bridge's MTU; with a larger one, large packets would be lost.
int MtuOf(state::Host& host, const config::LinkConfig& link, const rtnl::Link& bridge) {
  return link.mtu == 0 ? bridge.mtu : link::MtuOf(host.net, link.mtu);
}

}  // namespace

void AddInterface(const cni::Request& request, const cni::PluginType& type, int out) {
  Session session = OpenSession(request, type);
  const config::Config& config = session.config;
  state::Host& host = session.host;
  link::Container& container = session.container;

  // Replaces what an earlier ADD of this attachment left. Only the addresses stay.
  const std::optional<state::Record> earlier = host.records.FindOwn(request.id);
  Undo undo;
  link::RefuseForeignInterface(
      host, container, request.id, earlier ? link::Recorded::kYes : link::Recorded::kNo);
  RemoveEarlier(host, request.id, earlier, config.ipam.data_dir, undo);

  // Writes the record before it creates anything, so DEL and GC can clean up after a crash.
  const state::Record intent = IntentOnNode(session, config);
  attachment::Acquired acquired =
      attachment::AcquireAddresses(host, request, config, intent, earlier);
  const state::Record& record = acquired.record;
  attachment::UndoAcquired(host, record, undo);
  RequireFreeMac(host, config, record);

  const link::BridgeAndGateway links = EnsureBridge(host, record);
  undo.Then("delete the veth pair",
            [&host, &container, id = request.id] { link::EnsurePairGone(host, container, id); });
  link::CreateVeth(host, container, links.bridge, record, MtuOf(host, config.link, links.bridge));
  if (type.Provides(cni::Part::kLoopback)) {
    link::BringUpLoopback(container);
  }

  // The rules before the link, so they check the container's first frame, too.
  const bool is_delegated = record.ipam.delegated.has_value();
  undo.Then("remove the attachment",
            [&host, record] { attachment::UndoParts(host, record, record.AllParts()); });
  is_delegated ? attachment::PublishPort(host, record) : attachment::Publish(host, record);
  const link::VethPair veth = link::PlugIn(host, container, record);
  if (is_delegated) {
    link::BringUpBare(host, container, veth, config.link);
    acquired = attachment::AskDelegatedIpam(host, request, config, record);
    attachment::EnsureSegment(host, record.Finished());  // with the gateway's addresses
    attachment::Publish(host, record);
  }
  RequireJudgedTraffic(session, record);
  cni::Result result = ResultFor(acquired.result, config);
  link::ConfigureContainer(host, container, veth, result, config.link);
  link::AnnounceIfNeeded(container, veth, record, config.ipam.requested);

  undo.Keep();

  result.interfaces = InterfacesOf(links, veth, request.netns_path);
  const state::Record made = record.Finished();
  const auto remove = [&] { attachment::UndoParts(host, made, type.parts); };
  Answer(host, std::move(session.own), made, remove, [&] {
    cni::Print(config.prev_result ? cni::Append(result, *config.prev_result) : result,
               request.cni_version,
               out);
  });
}

}  // namespace nomad_bridge::commands
