#include "plugin/link/host_veth.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "netlink/core/sysctl.h"
#include "plugin/state/children.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::link {

namespace {

// `inner` is the interface as seen in the container.
bool IsPair(const rtnl::Link& outer, const rtnl::Link& inner) {
  return inner.kind == "veth" && inner.peer == outer.index && outer.peer == inner.index;
}

// Sets the port's flags and VLANs. `change` has other changes of the link for the same message.
void SetPort(rtnl::Socket& net,
             const rtnl::Link& veth,
             const state::Record& record,
             rtnl::LinkChange change = {}) {
  const config::PortSpec& port = record.link.port;
  change.port = port.Flags();
  net.Change(veth, change);
  if (port.vlans) {
    net.SetPortVlans(veth, *port.vlans);
  }
  // After the VLANs: the lock covers the VLANs that the port is in at this moment.
  if (port.locked) {
    net.LockPort(veth, record.ContainerMac());
  } else if (veth.locked) {
    net.UnlockPort(veth);
  }
}

// Returns the names of the settings in which the port is not as the record describes it.
std::vector<std::string_view> ChangedSettings(rtnl::Socket& net,
                                              const rtnl::Link& veth,
                                              const state::Record& record) {
  const config::PortSpec& port = record.link.port;
  const PortFlags wanted = port.Flags();
  std::vector<std::string_view> changed;
  const auto note = [&](bool is_changed, const char* what) {
    if (is_changed) {
      changed.emplace_back(what);
    }
  };
  note(veth.port.hairpin != wanted.hairpin, "hairpin mode");
  note(veth.port.isolated != wanted.isolated, "isolation");
  note(veth.port.forwards_groups != wanted.forwards_groups, "forwarding of link-local groups");
  note(port.vlans && !net.HasPortVlans(veth, *port.vlans), "VLANs");
  note(port.locked ? !net.IsPortLocked(veth, record.ContainerMac()) : veth.locked, "MAC check");
  return changed;
}

// Deletes a pair. The kernel hides a link at once, and then waits for an RCU grace period, which
// would be nine tenths of the time of a DEL. A child process waits instead. The child is also the
// last to close the nf_tables sockets, so it waits until the kernel has freed what was removed
// there.
void DeletePair(state::Host& host, const rtnl::Link& host_end) {
  if (!state::MayStartChild()) {
    host.net.EnsureLinkGone(host_end.name);
  } else if (const auto child = host.net.EnsureLinkGone(host_end, host.NetfilterSockets())) {
    state::NoteChild(*child);
  }
}

}  // namespace

bool IsHostVethOf(const rtnl::Link& link, const AttachmentId& id, Recorded recorded) {
  return state::IsAliasOf(link.alias, id) ||
         (recorded == Recorded::kYes && link.kind == "veth" && link.alias.empty());
}

std::optional<rtnl::Link> FindHostVeth(rtnl::Socket& host,
                                       const AttachmentId& id,
                                       Recorded recorded) {
  std::optional<rtnl::Link> link = host.FindLink(state::HostVethName(id));
  return link && IsHostVethOf(*link, id, recorded) ? link : std::nullopt;
}

ListedVeths::ListedVeths(const std::vector<rtnl::Link>& links) {
  for (const rtnl::Link& link : links) {
    if (state::IsHostVethName(link.name)) {
      by_name_.emplace(link.name, link);
    }
  }
}

std::optional<rtnl::Link> ListedVeths::Find(const AttachmentId& id, Recorded recorded) const {
  const auto found = by_name_.find(state::HostVethName(id));
  return found != by_name_.end() && IsHostVethOf(found->second, id, recorded)
             ? std::optional(found->second)
             : std::nullopt;
}

bool HasUnrecordedPort(rtnl::Socket& host,
                       const std::string& gateway_ifname,
                       const std::set<std::string>& recorded) {
  const std::optional<rtnl::Link> gateway = host.FindLink(gateway_ifname);
  if (!gateway) {
    return false;
  }
  const std::vector<rtnl::Link> ports =
      host.Ports(gateway->kind == "vlan" ? gateway->peer : gateway->index);
  return std::ranges::any_of(ports, [&](const rtnl::Link& port) {
    // Queries only ports that may be ours: other programs' bridges have hundreds.
    const bool may_be_ours = state::IsHostVethName(port.name) && !recorded.contains(port.name);
    const std::optional<rtnl::Link> link = may_be_ours ? host.FindLink(port.index) : std::nullopt;
    return link && state::ParseAlias(link->alias);
  });
}

void RefuseForeignInterface(state::Host& host,
                            Container& container,
                            const AttachmentId& id,
                            Recorded recorded) {
  const std::optional<rtnl::Link> present = container.net.FindLink(id.ifname);
  if (!present) {
    return;
  }
  const std::optional<rtnl::Link> ours = FindHostVeth(host.net, id, recorded);
  if (!ours || !IsPair(*ours, *present)) {
    throw Error(
        Code::kConflict,
        Format("interface '{}' already exists in the container's namespace", id.ifname),
        "it was not made by nomad-bridge and is left alone; remove it, or use another CNI_IFNAME");
  }
}

void EnsurePairGone(state::Host& host, Container& container, const AttachmentId& id) {
  const std::optional<rtnl::Link> outer = FindHostVeth(host.net, id, Recorded::kYes);
  const std::optional<rtnl::Link> inner = container.net.FindLink(id.ifname);
  // The link gets its alias after it is created. Until then the other end shows that it is ours.
  if (outer && (!outer->alias.empty() || (inner && IsPair(*outer, *inner)))) {
    host.net.EnsureLinkGone(outer->name);
  }
}

void EnsureLinkGone(state::Host& host, const state::Record& record) {
  const Recorded recorded = record.is_from_kernel ? Recorded::kNo : Recorded::kYes;
  if (const std::optional<rtnl::Link> link = FindHostVeth(host.net, record.id, recorded)) {
    DeletePair(host, *link);
  }
}

void CreateVeth(state::Host& host,
                Container& container,
                const rtnl::Link& bridge,
                const state::Record& record,
                int mtu) {
  const std::string name = state::HostVethName(record.id);
  // Both ends are down, so no packet passes before PlugIn() has set flags, VLANs and alias.
  host.net.CreateVeth({.host_name = name,
                       .host_mac = Mac::ForName(name),
                       .bridge = bridge.index,
                       .container_ifname = record.id.ifname,
                       .container_mac = record.ContainerMac(),
                       .mtu = mtu},
                      container.netns);
}

VethPair PlugIn(state::Host& host, Container& container, const state::Record& record) {
  const rtnl::Link host_end = host.net.RequireLink(state::HostVethName(record.id));
  // Before the link is up. The kernel gives IPv6 addresses and routes to each link that comes up. A
  // bridge's port does not need them, and the kernel compares every link that comes or goes later
  // with all of them.
  const std::string disable_ipv6 = netlink::Ipv6Setting(host_end.name, "disable_ipv6");
  if (record.HasIpv6()) {  // then our procfs instance is mounted anyway
    netlink::SetSysctlIfPossible(disable_ipv6, "1");
  } else {
    netlink::SetOneSysctlIfPossible(disable_ipv6, "1");
  }
  // Set up only after the lookup: a lookup of a link that is up but has no carrier makes the kernel
  // wait.
  SetPort(host.net,
          host_end,
          record,
          {.up = true, .alias = state::LinkAlias(record.id, record.labels)});
  return {.host = host_end,
          .container = container.net.RequireLink(record.id.ifname),
          .is_on_lan = record.link.adopted};
}

void CheckHostVeth(state::Host& host,
                   const state::Record& record,
                   const std::optional<rtnl::Link>& veth,
                   const std::optional<rtnl::Link>& bridge,
                   Findings& findings) {
  const auto of_port = [&](std::string text) {
    return Finding{Finding::Area::kPort, record.id.container_id, std::move(text)};
  };
  if (!veth) {
    Finding lost = of_port(Format("{} is missing, and the container's interface with it",
                                  state::HostVethName(record.id)));
    lost.fix = record.RuntimeFix("stop");
    return findings.AddUnrepairable(std::move(lost));
  }
  if (veth->alias.empty()) {
    // The alias shows people without root whose link it is, and reconcile if the record is lost.
    findings.Add(of_port(Format("the alias of {} is missing", veth->name)), [&] {
      host.net.Change(*veth, {.alias = state::LinkAlias(record.id, record.labels)});
    });
  }
  if (!bridge) {
    return;  // CheckBridge() reports the missing bridge
  }
  if (veth->master != bridge->index) {
    return findings.Add(
        of_port(Format("{} is no port of bridge '{}'", veth->name, record.link.bridge)), [&] {
          host.net.Change(*veth,
                          {.up = true, .master = host.net.RequireLink(record.link.bridge).index});
          // Read again, because the new port has settings that must go, such as the default VLAN.
          SetPort(host.net, host.net.RequireLink(veth->name), record);
        });
  }
  if (!veth->up) {
    findings.Add(of_port(Cat(veth->name, " is down")),
                 [&] { host.net.Change(*veth, {.up = true}); });
  }
  if (const std::vector<std::string_view> changed = ChangedSettings(host.net, *veth, record);
      !changed.empty()) {
    Finding finding =
        of_port(Format("the {} of {} was changed", Joined(changed, ", "), veth->name));
    // Without it, only connections to the container's own published port fail.
    finding.ends = changed.size() > 1 || veth->port.hairpin == record.link.port.Flags().hairpin;
    findings.Add(std::move(finding), [&] { SetPort(host.net, *veth, record); });
  }
}

void AwaitGateway(state::Host& host, const state::Record& record) {
  const std::optional<rtnl::Link> veth = FindHostVeth(host.net, record.id, Recorded::kYes);
  if (veth && veth->operational && veth->forwarding) {
    static_cast<void>(host.net.AwaitOperational(record.link.gateway_ifname, FromNow(kTimeout)));
  }
}

}  // namespace nomad_bridge::link
