#include <array>
#include <set>

#include <sys/utsname.h>

#include "base/list.h"
#include "base/text.h"
#include "firewall/foreign_drops.h"
#include "netlink/core/sysctl.h"
#include "plugin/causes/on_node.h"
#include "plugin/cli/doctor.h"
#include "plugin/foreign/other_firewalls.h"
#include "plugin/link/forwarding.h"
#include "plugin/link/uplink.h"
#include "plugin/rules/check_ruleset.h"
#include "plugin/rules/published_port_warnings.h"

namespace nomad_bridge::cli {
namespace {

using Area = Finding::Area;

// Checks nf_tables. Without it no rule can be read, and most other checks then refer to this
// result.
void CheckNfTables(Examination& node) {
  try {
    static_cast<void>(node.host.nft.Generation());
    utsname name{};
    ::uname(&name);
    node.Ok(name.release);
  } catch (const Error& error) {
    node.Fail(error.what(), error.fix() == Fix() ? Fix("modprobe nf_tables") : error.fix());
    node.findings.back().error = error.what();
  }
}

void CheckConntrackRoom(Examination& node) {
  constexpr long kMaxPercent = 90;
  const causes::ConntrackRoom room = causes::FindConntrackRoom();
  const std::string what = Format("{} of {} connections", room.used, room.most);
  if (room.most == 0 || room.used * 100 < room.most * kMaxPercent) {
    return node.Ok(room.most == 0 ? "" : what);
  }
  node.Add(room.IsFull() ? Finding::Severity::kFault : Finding::Severity::kWarning,
           Cat(what, ": new ones are dropped when it is full"),
           room.Enlarge());
}

// Reconcile turns forwarding on for networks with a gateway of ours. For all other published ports,
// and for single uplinks, only the operator does.
void CheckForwarding(Examination& node) {
  node.AddFindings({Area::kForwarding});
  FindingList off;
  if (!node.gateways.empty() && node.host.net.ForwardsAll(Family::kIpv4)) {
    std::vector<std::string> ifnames = link::RoutedUplinks(node.host, node.inventory.links);
    for (const auto& [gateway, record] : node.gateways) {
      ifnames.push_back(gateway);
    }
    for (const rtnl::Link& link : node.inventory.links) {
      if (Contains(ifnames, link.name) && link.ipv4 && !link.ipv4->forwarding) {
        off.push_back(link::ForwardingOff(netlink::Ipv4Setting(link.name, "forwarding")));
      }
    }
  }
  for (const Attachment* const attachment : node.running) {
    Append(off, rules::FindForwardingOff(node.host, *attachment->record));
  }
  node.AddUnreported(std::move(off));
}

// Warns if an uplink no longer accepts router advertisements: the addresses and routes that the
// node has learnt from them will expire. Skips links that have learnt nothing: with accept_ra=2
// they would begin to trust advertisements.
void CheckAdvertisements(Examination& node) {
  if (!node.host.net.ForwardsAll(Family::kIpv6)) {
    return;
  }
  std::set<int> learnt = node.host.net.LinksWithLearntAddresses();
  for (const rtnl::Socket::LearntRoute& each : node.host.net.LearntRoutes()) {
    learnt.insert(each.link);
  }
  for (const rtnl::Link& link : link::Uplinks(node.inventory.links)) {
    const std::string setting = netlink::Ipv6Setting(link.name, "accept_ra");
    if (learnt.contains(link.index) && link.ipv6 && link.ipv6->accept_ra == 1) {
      node.Warn(Format("'{}' takes no router advertisements: {} is 1, and the node forwards IPv6",
                       link.name,
                       setting),
                Cat("sysctl -w ", ShellWord(Cat(setting, "=2"))));
    }
  }
}

// Warns about strict reverse path filtering on gateways of allocations in two networks. Such an
// allocation sends all answers through the default route of one network, even from its address in
// the other network.
void CheckReversePath(Examination& node) {
  std::map<std::string, std::set<std::string>> gateways_of;  // by container
  for (const Attachment* const attachment : node.running) {
    gateways_of[attachment->id.container_id].insert(attachment->record->link.gateway_ifname);
  }
  std::set<std::string> shared;
  for (auto& [container, gateways] : gateways_of) {
    if (gateways.size() > 1) {
      shared.merge(gateways);
    }
  }
  for (const std::string& ifname : shared) {
    if (causes::IsReversePathStrict(ifname)) {
      node.Warn(Format("rp_filter of '{}' is strict: the kernel drops answers of allocations in "
                       "two networks",
                       ifname),
                causes::LoosenReversePath(ifname));
    }
  }
}

int MarkBitOf(Examination& node) {
  for (const Attachment* const attachment : node.running) {
    if (rules::HasForwardHook(*attachment->record)) {
      return attachment->record->rules.forward_hook.accept_mark_bit;
    }
  }
  return firewall::ForwardHook().accept_mark_bit;
}

void CheckForeignChains(Examination& node) {
  node.AddAll(firewall::FindForeignDrops(node.host.nft, MarkBitOf(node)));
  if (!node.publishing.empty()) {
    node.AddAll(foreign::FindStrictForwardPorts(node.host));
  }
}

// Reads the generation first, which throws if no rule can be read. A reconcile finds nothing in
// these areas then, so the check would seem to be ok.
template <Finding::Area... kAreas>
void CheckRules(Examination& node) {
  static_cast<void>(node.host.nft.Generation());
  node.AddFindings({kAreas...});
}

constexpr std::array kKernelTable = {
    Check{"kernel.nf_tables", CheckNfTables},
    Check{"conntrack.full", CheckConntrackRoom},
    Check{"sysctl.ip_forward", CheckForwarding},
    Check{"sysctl.accept_ra", CheckAdvertisements},
    Check{"sysctl.rp_filter", CheckReversePath},
    Check{"sysctl.route_localnet", CheckByReconcile<Area::kLocalhost>},
    Check{"table.intact", CheckRules<Area::kTable, Area::kElement>},
    Check{"static_rules", CheckRules<Area::kStaticRules>},
    Check{"forward.foreign", CheckForeignChains},
    Check{"firewalld.zone", CheckRules<Area::kOtherFirewall>},
    Check{"ports.orphan", CheckRules<Area::kLeftOver>},
};

}  // namespace

const std::span<const Check> kKernelChecks = kKernelTable;

}  // namespace nomad_bridge::cli
