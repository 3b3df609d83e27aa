// firewall, portmap: rules for an interface that a plugin before us has made, often we ourselves
// under another name.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "plugin/attachment/publish.h"
#include "plugin/attachment/remove.h"
#include "plugin/attachment/repair.h"
#include "plugin/cni/error_list.h"
#include "plugin/commands/check_errors.h"
#include "plugin/commands/commands.h"
#include "plugin/link/container.h"
#include "plugin/rules/apply.h"
#include "plugin/rules/port_side_effects.h"
#include "plugin/takeover/reference.h"

namespace nomad_bridge::commands {
namespace {

// `link` as the way to a stranger's interface: a bridge (the reference plugin's, and perhaps the
// gateway of its VLAN), or the end of a veth pair that is nobody's port. Anything else, as a
// macvlan's uplink, is not the container's alone.
void NoteHostSide(const rtnl::Link& link, state::Record& record) {
  const bool is_vlan_gateway = (link.kind == "veth" || link.kind == "vlan") &&
                               !record.link.gateway_ifname.empty() &&
                               link.name.starts_with(Cat(record.link.gateway_ifname, '.'));
  if (link.kind == "bridge" || is_vlan_gateway) {
    record.link.gateway_ifname = link.name;
  } else if (link.kind == "veth" && link.master == 0) {
    record.link.foreign_host_ifnames.push_back(link.name);
  }
}

// Where the packets of a stranger's interface come from: by what its plugin says of the host's side;
// by the node's own route, if it says nothing (results before 0.3.0 know no interfaces).
void FillInHostSide(state::Host& host, const cni::Result& before, state::Record& record) {
  record.link.gateway_ifname.clear();
  record.link.foreign_host_ifnames.clear();
  for (const cni::Interface& interface : before.interfaces) {
    const std::optional<rtnl::Link> link =
        interface.sandbox.empty() ? host.net.FindLink(interface.name) : std::nullopt;
    if (link) {
      NoteHostSide(*link, record);
    }
  }
  if (!before.interfaces.empty() || record.ipam.addresses.empty()) {
    return;
  }
  const std::optional<int> way =
      host.net.LookupOutputInterface(record.ipam.addresses.front().address);
  const std::optional<rtnl::Link> link = way ? host.net.FindLink(*way) : std::nullopt;
  if (link) {
    NoteHostSide(*link, record);
  }
}

// The attachment as the plugins before us left it.
state::Record Describe(state::Host& host,
                       const cni::Request& request,
                       const config::Config& config,
                       const netlink::Netns& container,
                       const std::optional<state::Record>& earlier) {
  state::Record record = earlier ? *earlier
                                 : state::Record{.id = request.id,
                                                 .labels = config.labels,
                                                 .netns_path = request.netns_path,
                                                 .netns = container.id(),
                                                 .rules = {.forward_hook = {.admin_chain = {}}}};
  if (!record.Has(cni::Part::kLink)) {
    record.ipam.addresses = link::AddressesIn(*config.prev_result, request);
    FillInHostSide(host, *config.prev_result, record);
  }
  return record;
}

bool HasAny(const state::Record& record, const cni::Parts& parts) {
  return std::any_of(parts.begin(), parts.end(), [&](cni::Part part) { return record.Has(part); });
}

bool IsReachable(const portmap::PortMapping& port, const std::vector<Cidr>& addresses) {
  return !port.only || std::any_of(addresses.begin(), addresses.end(), [&](const Cidr& cidr) {
    return cidr.address.family() == *port.only;
  });
}

// Nomad asks for the node's own address, of whatever family it is, also in a network without that
// family. The reference plugin leaves such a port out, so that the allocation starts nevertheless.
std::vector<portmap::PortMapping> Reachable(std::vector<portmap::PortMapping> ports,
                                            const std::vector<Cidr>& addresses) {
  std::erase_if(ports, [&](const portmap::PortMapping& port) {
    const bool reachable = IsReachable(port, addresses);
    if (!reachable) {
      LogLine("not publishing ",
              portmap::Text(port.protocol),
              " port ",
              port.host_port,
              ": the container has no ",
              *port.only == Family::kIpv4 ? "IPv4" : "IPv6",
              " address");
    }
    return !reachable;
  });
  return ports;
}

// `record` with what `name` adds to it. Without a port portmap adds nothing.
state::Record WithRules(state::Record record,
                        const cni::PluginType& type,
                        const config::RulesConfig& rules) {
  record.del_progress = state::DelProgress::kNone;
  record.parts.insert(type.parts.begin(), type.parts.end());
  if (type.Provides(cni::Part::kForward)) {
    record.rules.forward_hook = rules.forward_hook;
    record.rules.forward_hook.ipv6 = record.HasIpv6();
    record.rules.ingress = rules.ingress;
    record.rules.firewalld_zone = rules.firewalld_zone;
  }
  if (type.Provides(cni::Part::kPorts)) {
    record.rules.snat = rules.snat;
    record.rules.masq_all = rules.masq_all;
    record.rules.ports = portmap::Resolve(Reachable(rules.ports, record.ipam.addresses),
                                          AddressesOnly(record.ipam.addresses));
    if (record.rules.ports.empty()) {
      record.parts.erase(cni::Part::kPorts);
    }
  }
  return record;
}

// The first DEL may be about its own part alone. A second one, of another name's part, says that the
// runtime goes through its list: what rules are left go with it, ahead of the DEL of the bridge they
// belong to. Every process that deletes from nf_tables waits for an RCU grace period, some 15 ms.
state::DelProgress ProgressAfter(const state::Record& record, const cni::PluginType& type) {
  if (record.del_progress == state::DelProgress::kNone) {
    return state::DelProgress::kStarted;
  }
  return HasAny(record, type.parts) ? state::DelProgress::kRulesGone : record.del_progress;
}

// What the runtime says it had; nothing is fine, and so is nonsense.
std::vector<Cidr> FindExpectedAddresses(const cni::Request& request) {
  const std::optional<cni::Result> result = cni::FindPrevResult(request);
  return result ? link::AddressesIn(*result, request) : std::vector<Cidr>();
}

}  // namespace

void AddRules(const cni::Request& request, const cni::PluginType& type, int out) {
  const config::Config config = config::ParseConfig(request, type);
  static_cast<void>(RequirePrevResult(config));
  state::Host host = state::Host::Open();
  const link::Container container = link::OpenContainer(request, host);
  const RangeLock mine = host.records.Lock(request.id);

  // What an earlier ADD in another namespace left belongs to nobody any more; what one in this
  // namespace left of our part is replaced.
  std::optional<state::Record> earlier = host.records.Find(request.id);
  cni::ErrorList failures;
  if (earlier && earlier->netns != container.netns.id()) {
    failures.Add(attachment::Remove(host, *earlier));
    earlier.reset();
  } else if (earlier && HasAny(*earlier, type.parts)) {
    failures.Add(attachment::RemoveParts(host, *earlier, type.parts, earlier->del_progress));
    for (const cni::Part part : type.parts) {
      earlier->parts.erase(part);
    }
    if (earlier->parts.empty()) {
      earlier.reset();  // its record went with its last part
    }
  }
  failures.ThrowIfAny("cannot remove what an earlier ADD left");

  const state::Record record =
      WithRules(Describe(host, request, config, container.netns, earlier), type, config.rules);
  const state::DelProgress before = earlier ? earlier->del_progress : state::DelProgress::kNone;
  if (!HasAny(record, type.parts) && before == state::DelProgress::kNone) {
    return cni::PrintPrevResult(request, out);
  }
  Undo undo;
  undo.Then("withdraw the rules", [&host, record, &type, before, earlier] {
    cni::ErrorList left;
    left.Add(attachment::RemoveParts(host, record, type.parts, before));
    left.ThrowIfAny("some of them are still there");
    if (earlier) {
      host.records.Write(*earlier);
    }
  });
  host.records.Write(record);
  attachment::ApplyRules(
      host, record, earlier ? firewall::PlanMode::kLookUp : firewall::PlanMode::kAssumeAbsent);
  rules::EnsureLocalhostReaches(record);
  rules::ForgetStaleFlows(host, record);

  cni::PrintPrevResult(request, out);
  undo.Keep();
}

void DelRules(const cni::Request& request, const cni::PluginType& type) {
  state::Host host = state::Host::Open();
  static_cast<void>(link::FindContainer(request, host));  // the host's own is refused
  const RangeLock mine = host.records.Lock(request.id);

  cni::ErrorList failures;
  const std::optional<state::Record> record = host.records.Find(request.id);
  const bool are_ours = record && HasAny(*record, type.parts);
  if (record) {
    failures.Add(attachment::RemoveParts(host, *record, type.parts, ProgressAfter(*record, type)));
  } else {
    failures.Try("the rules", [&] {
      std::vector<nft::Element> elements = rules::FindRulesOf(host, request.id);
      std::erase_if(elements, [&](const nft::Element& element) {
        const std::optional<cni::Part> part = rules::PartOf(element);
        return part && !type.Provides(*part);
      });
      rules::RemoveElements(host, elements);
    });
  }
  if (!are_ours) {
    // Behind our own bridge, too, the reference plugin may have made them.
    failures.Try("the reference plugins' rules", [&] {
      const std::vector<Ip> addresses =
          AddressesOnly(record ? record->ipam.addresses : FindExpectedAddresses(request));
      if (record) {
        takeover::TryRemoveReferenceRules(host, request.id, addresses, type.parts);
      } else {
        takeover::RemoveReferenceRulesOf(host, request.id, addresses, type.parts);
      }
    });
  }
  failures.ThrowIfAny(Cat("container ",
                          Quoted(request.id.container_id),
                          " still has rules of ",
                          type.name,
                          " in network ",
                          Quoted(request.id.network)));
}

void CheckRules(const cni::Request& request, const cni::PluginType& type) {
  const config::Config config = config::ParseConfig(request, type);
  static_cast<void>(RequirePrevResult(config));
  state::Host host = state::Host::Open();
  const link::Container container = link::OpenContainer(request, host);
  const RangeLock mine = host.records.Lock(request.id);
  const std::vector<Cidr> addresses = link::AddressesIn(*config.prev_result, request);
  const std::vector<portmap::PortMapping>& ports = config.rules.ports;
  if (type.Provides(cni::Part::kPorts) &&
      std::none_of(ports.begin(), ports.end(), [&](const portmap::PortMapping& port) {
        return IsReachable(port, addresses);
      })) {
    return;  // nothing was asked for, or nothing that there is
  }
  std::optional<state::Record> found = host.records.Find(request.id);
  if (!found || !HasAny(*found, type.parts)) {
    std::vector<std::string> mismatches = takeover::DiffReference(host, request, type, config);
    if (found && !mismatches.empty()) {
      mismatches.push_back(Cat("it has no rules of ", type.name));
    }
    return ThrowIfChanged(request.id, mismatches);
  }
  const state::Record record = RequireRecord(std::move(found), request.id, container.netns);
  if (config.repair_on_check) {
    attachment::RepairRules(host, record);
    rules::EnsureLocalhostReaches(record);
  } else {
    ThrowIfChanged(request.id, rules::DiffRules(host, record));
  }
}

}  // namespace nomad_bridge::commands
