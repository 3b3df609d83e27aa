#include "plugin/commands/described_record.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "firewall/change.h"
#include "plugin/attachment/acquire_addresses.h"
#include "plugin/link/bridge.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/uplink.h"
#include "plugin/rules/bridge_netfilter.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/policy_tables.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::commands {
namespace {

// Throws kChanged if our `bridge` made the interface and a DEL has removed it since: published
// ports would lead to the next owner of its address.
void RequireInterface(state::Host& host, const AttachmentId& id, const cni::Result& result) {
  const std::string veth = state::HostVethName(id);
  if (std::ranges::count(result.interfaces, veth, &cni::Interface::name) != 0 &&
      !host.net.FindLink(veth)) {
    throw Error(Code::kChanged,
                Format("interface '{}' of container '{}' has been removed since its ADD",
                       id.ifname,
                       id.container_id),
                Format("its host end '{}' is missing", veth));
  }
}

// Returns the host's links that lead to the container: the links that its plugin names. If the
// result has no interfaces (results before 0.3.0 have none), returns the link of the node's own
// route.
std::vector<rtnl::Link> FindHostLinks(state::Host& host,
                                      const cni::Result& result,
                                      const std::vector<Cidr>& addresses) {
  std::vector<rtnl::Link> links;
  const auto add = [&](std::optional<rtnl::Link> link) {
    if (link) {
      links.push_back(*std::move(link));
    }
  };
  for (const cni::Interface& interface : result.interfaces) {
    if (interface.sandbox.empty()) {
      add(host.net.FindLink(interface.name));
    }
  }
  if (result.interfaces.empty() && !addresses.empty()) {
    if (const std::optional<int> index =
            host.net.LookupOutputInterface(addresses.front().address)) {
      add(host.net.FindLink(*index));
    }
  }
  return links;
}

// Returns the gateways of `result` that are addresses of `link`. If there are any, the node routes
// for the hosts behind the link.
std::vector<Cidr> FindGateways(state::Host& host,
                               const cni::Result& result,
                               const rtnl::Link& link) {
  std::vector<Cidr> gateways = host.net.Addresses(link);
  std::erase_if(gateways, [&](const Cidr& address) {
    return std::ranges::none_of(
        result.ips, [&](const cni::IpConfig& ip) { return ip.gateway == address.address; });
  });
  return gateways;
}

// Describes the host side of an interface: a bridge of the reference plugin, perhaps with the
// gateway of its VLAN, and the host ends of veth pairs. Ignores any other link, such as the parent
// of a macvlan, because it also serves others.
state::Record::Link DescribeHostSide(state::Host& host,
                                     const cni::Result& result,
                                     const std::vector<Cidr>& addresses) {
  state::Record::Link side;
  std::optional<rtnl::Link> bridge;
  for (const rtnl::Link& link : FindHostLinks(host, result, addresses)) {
    const bool is_vlan_gateway = (link.kind == "veth" || link.kind == "vlan") &&
                                 !side.gateway_ifname.empty() &&
                                 link.name.starts_with(Cat(side.gateway_ifname, '.'));
    if (link.kind == "bridge" || is_vlan_gateway) {
      side.gateway_ifname = link.name;
      side.gateways = FindGateways(host, result, link);
      bridge = link.kind == "bridge" ? link : bridge;
    } else if (link.kind == "veth") {
      (link.master == 0 ? side.foreign_host_ifnames : side.foreign_ports).push_back(link.name);
    }
  }
  side.adopted = bridge && !side.gateways.empty() && link::HasUplink(host.net, *bridge);
  return side;
}

bool IsReachable(const portmap::PortMapping& port, const std::vector<Cidr>& addresses) {
  return !port.only || HasFamily(addresses, *port.only);
}

// Removes ports that cannot lead to the container. Nomad requests ports on the node's own address,
// whatever its family, even if the network lacks the family. As in the reference plugin, such a
// port is left out, so that the allocation starts.
std::vector<portmap::PortMapping> Reachable(std::vector<portmap::PortMapping> ports,
                                            const std::vector<Cidr>& addresses) {
  std::erase_if(ports, [&](const portmap::PortMapping& port) {
    const bool reachable = IsReachable(port, addresses);
    if (!reachable) {
      LogLine("not publishing {} port {}: the container has no {} address",
              Text(port.protocol),
              port.host_port,
              *port.only == Family::kIpv4 ? "IPv4" : "IPv6");
    }
    return !reachable;
  });
  return ports;
}

// Returns `record` with the parts of `type`, set up as `rules` says. portmap without a port adds no
// part.
state::Record WithRules(state::Record record,
                        const cni::PluginType& type,
                        const config::RulesConfig& rules) {
  record = record.With(type.parts, state::Phase::kMaking);
  const std::vector<Cidr>& addresses = record.ipam.addresses;
  if (type.Provides(cni::Part::kForward)) {
    static_cast<config::ForwardSpec&>(record.rules) = rules;
    record.rules.forward_hook.ipv6 = record.HasIpv6();
  }
  if (type.Provides(cni::Part::kPorts)) {
    static_cast<config::PublishSpec&>(record.rules) = rules;
    record.rules.ports =
        portmap::Resolve(Reachable(rules.ports, addresses), AddressesOnly(addresses));
    if (record.rules.ports.empty()) {
      record.parts.erase(cni::Part::kPorts);
    }
  }
  return record;
}

// Returns whether the kernel has one of the elements of `record` that belong to it.
bool HasElements(state::Host& host, const state::Record& record) {
  std::vector<nft::Element> elements = rules::ElementsOf(record);
  std::erase_if(elements, &firewall::IsShared);
  return Contains(firewall::FindPresences(host.nft, elements), firewall::Presence::kSame);
}

state::Record Rebuilt(Session& session, const state::Record& intent, Findings& findings) {
  state::Record record = intent.Finished();
  findings.Add(state::LostRecord(record.id), [&] { session.host.records.Write(record); });
  return record;
}

}  // namespace

state::Record IntentOnNode(Session& session, const config::Config& config) {
  state::Record intent =
      state::IntentOf(session.request, session.type, config, session.container.id);
  link::DescribeBridge(session.host, intent);
  if (!config.rules.ports.empty()) {
    intent.rules.had_default_route = link::FindDefaultRoutes(session.host.net);
  }
  return rules::WithPolicies(std::move(intent), session.host.policy.Program());
}

state::Record RecordFromPrevResult(Session& session, const std::optional<state::Record>& earlier) {
  const cni::Request& request = session.request;
  state::Record record = earlier.value_or(
      state::IntentOf(request, session.type, session.config, session.container.id));
  if (!record.IsLive(cni::Part::kLink)) {
    const cni::Result& result = *session.config.prev_result;
    RequireInterface(session.host, request.id, result);
    record.ipam.addresses = link::AddressesIn(result, request);
    record.ipam.default_routes = state::Record::DefaultRoutes::Of(result.routes);
    record.link = DescribeHostSide(session.host, result, record.ipam.addresses);
  }
  if (session.type.Provides(cni::Part::kPorts) && !session.config.rules.ports.empty()) {
    record.rules.had_default_route = link::FindDefaultRoutes(session.host.net);
  }
  return rules::WithPolicies(WithRules(std::move(record), session.type, session.config.rules),
                             session.host.policy.Program());
}

bool IsAnyReachable(const std::vector<portmap::PortMapping>& ports,
                    const std::vector<Cidr>& addresses) {
  return std::ranges::any_of(
      ports, [&](const portmap::PortMapping& port) { return IsReachable(port, addresses); });
}

std::optional<state::Record> RebuildInterface(Session& session, Findings& findings) {
  const cni::Request& request = session.request;
  if (!link::FindHostVeth(session.host.net, request.id, link::Recorded::kNo)) {
    return std::nullopt;
  }
  session.config = rules::WithoutUnsupportedDefaults(std::move(session.config), session.host);
  const config::Config& config = session.config;
  const std::vector<Cidr> addresses = link::AddressesIn(*config.prev_result, request);
  cni::Result result = *config.prev_result;
  std::erase_if(result.ips,
                [&](const cni::IpConfig& ip) { return !Contains(addresses, ip.address); });
  state::Record record =
      attachment::WithAddresses(IntentOnNode(session, config), std::move(result), config).record;
  record.created = 0;  // nobody knows when its ADD ran
  record.ipam.delegated = cni::FindDelegatedIpam(request, config.ipam.type);
  if (record.ipam.delegated && !record.link.mac) {
    record.link.mac = link::MacIn(*config.prev_result, request);  // not derived from an address
  }
  if (config.ipam.type == cni::kHostLocal) {
    record.ipam.leases = record.ipam.addresses;
  }
  return Rebuilt(session, record, findings);
}

std::optional<state::Record> RebuildRules(Session& session,
                                          const std::optional<state::Record>& found,
                                          Findings& findings) {
  if (found && found->OnlyLive().parts != found->parts) {
    return std::nullopt;  // an ADD or DEL of the attachment is not finished
  }
  state::Record record = RecordFromPrevResult(session, found);
  record.created = found ? found->created : 0;
  if (!HasElements(session.host, record.Only(session.type.parts))) {
    return std::nullopt;
  }
  return Rebuilt(session, record, findings);
}

}  // namespace nomad_bridge::commands
