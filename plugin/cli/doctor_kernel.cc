#include <algorithm>
#include <array>
#include <set>

#include "base/file.h"
#include "base/list.h"
#include "base/text.h"
#include "firewall/foreign_drops.h"
#include "firewall/table.h"
#include "netlink/core/sysctl.h"
#include "plugin/causes/conntrack_room.h"
#include "plugin/causes/reverse_path.h"
#include "plugin/cli/doctor.h"
#include "plugin/link/forwarding.h"
#include "plugin/link/uplink.h"
#include "plugin/rules/forward_hooks.h"
#include "plugin/rules/published_port_warnings.h"

namespace nomad_bridge::cli {
namespace {

using Area = Mismatch::Area;

// A module that is neither loaded nor among those of this kernel. Where that has no list of them it
// cannot be told.
void CheckModule(Examination& node, const std::string& name, bool is_seen) {
  if (is_seen || FindStatus(Cat("/sys/module/", name))) {
    return;
  }
  const std::string directory = Cat("/lib/modules/", node.release);
  constexpr std::size_t kMaxBytes = 64 << 20;
  const std::optional<std::string> loadable = FindFile(directory + "/modules.dep", kMaxBytes);
  const std::string builtin = FindFile(directory + "/modules.builtin", kMaxBytes).value_or("");
  if (loadable && Cat(*loadable, builtin).find(Format("/{}.ko", name)) == std::string::npos) {
    node.Fail(Format("kernel {} has no module {}", node.release, name),
              Fix::Advice(Format(
                  "boot a kernel that has it, or install its modules; then: modprobe {}", name)));
  }
}

// A rule of the operator's about packets from one interface to one.
bool IsBetweenInterfaces(const nft::KernelRule& rule) {
  const auto names = [&](std::string_view word) {
    return std::ranges::any_of(rule.expressions, [&](const std::string& text) {
      return text.find(word) != std::string::npos;
    });
  };
  return names("meta load iif") && names("meta load oif");
}

void CheckNfTables(Examination& node) {
  try {
    static_cast<void>(node.host.nft.Generation());
    node.Ok(node.release);
  } catch (const std::exception& error) {
    node.Fail(error.what(), "modprobe nf_tables");
  }
}

void CheckBridgeModule(Examination& node) {
  CheckModule(
      node, "bridge", std::ranges::count(node.inventory.links, "bridge", &rtnl::Link::kind) != 0);
}

void CheckConntrack(Examination& node) {
  CheckModule(
      node, "nf_conntrack", netlink::FindSysctl("net/netfilter/nf_conntrack_count").has_value());
}

// What neighbours on a bridge send each other passes table ip filter only with it.
void CheckBrNetfilter(Examination& node) {
  if (netlink::IsSysctlOn("net/bridge/bridge-nf-call-iptables")) {
    return node.Ok("on");
  }
  std::set<std::string> chains;
  for (const Attachment* const attachment : node.running) {
    if (rules::HasForwardHook(*attachment->record)) {
      chains.insert(attachment->record->rules.forward_hook.admin_chain);
    }
  }
  for (const std::string& chain : chains) {
    const auto rules = node.host.nft.Rules({nft::TableFamily::kIp, "filter"}, chain);
    if (std::ranges::any_of(rules, IsBetweenInterfaces)) {
      return node.Fail(
          Format("chain {} has rules between interfaces, which neighbours on one bridge pass by: "
                 "br_netfilter is off",
                 chain),
          "modprobe br_netfilter && sysctl -w net.bridge.bridge-nf-call-iptables=1");
    }
  }
  node.Ok("off, and nothing needs it");
}

void CheckConntrackRoom(Examination& node) {
  constexpr long kMaxPercent = 90;
  const causes::ConntrackRoom room = causes::FindConntrackRoom();
  const std::string what = Format("{} of {} connections", room.used, room.most);
  if (room.most == 0 || room.used * 100 < room.most * kMaxPercent) {
    return node.Ok(room.most == 0 ? "" : what);
  }
  node.Add(room.IsFull() ? Verdict::kFail : Verdict::kWarn,
           Cat(what, ": new ones are dropped when it is full"),
           room.Enlarge());
}

// A broadcast waits once for each port of the bridge, all in one queue, and the node's answer
// behind them. What finds the queue full is dropped, at every attempt: the last ports' allocations
// find neither their neighbours nor the gateway.
void CheckBacklog(Examination& node) {
  const auto room =
      static_cast<std::uint64_t>(netlink::SysctlNumber("net/core/netdev_max_backlog"));
  for (const Network& network : node.inventory.networks) {
    if (room != 0 && network.ports && network.ports->used > room) {
      node.Fail(
          Format("the bridge of network '{}' has {} ports, and net/core/netdev_max_backlog is "
                 "{}: broadcasts are cut, so that allocations do not find their gateway",
                 network.name,
                 network.ports->used,
                 room),
          "sysctl -w net/core/netdev_max_backlog=4096");
    }
  }
}

// Published by what has no gateway of ours: for any other reconcile turns it on.
void CheckForwardingToPorts(Examination& node) {
  std::map<std::string, std::vector<std::string>> unreached;  // by the setting
  for (const Attachment* const attachment : node.running) {
    for (const std::string& setting : rules::FindForwardingOff(node.host, *attachment->record)) {
      unreached[setting].push_back(
          Format("{} is 0: the published ports of '{}' answer this node alone",
                 setting,
                 attachment->Allocation()));
    }
  }
  for (const auto& each : unreached) {
    const std::string& setting = each.first;
    const bool is_said = std::ranges::any_of(node.Reconciled().left(), [&](const auto& mismatch) {
      return mismatch.area == Area::kForwarding && mismatch.part == setting;
    });
    if (!is_said) {
      node.AddAll(Verdict::kFail, each.second, Cat("sysctl -w ", ShellWord(Cat(setting, "=1"))));
    }
  }
}

void CheckForwarding(Examination& node) {
  node.AddMismatches({Area::kForwarding});
  if (!node.gateways.empty() && node.host.net.ForwardsAll(Family::kIpv4)) {
    std::vector<std::string> ifnames = link::RoutedUplinks(node.host, node.inventory.links);
    for (const auto& [gateway, record] : node.gateways) {
      ifnames.push_back(gateway);
    }
    for (const rtnl::Link& link : node.inventory.links) {
      if (Contains(ifnames, link.name) && link.ipv4 && !link.ipv4->forwarding) {
        const std::string setting = netlink::Ipv4Setting(link.name, "forwarding");
        node.Fail(Format("{} is 0: what comes by '{}' gets to no allocation", setting, link.name),
                  Cat("sysctl -w ", ShellWord(Cat(setting, "=1"))));
      }
    }
  }
  CheckForwardingToPorts(node);
}

// For allocations it forwards; what else it forwards is for a firewall to say.
void CheckRouting(Examination& node) {
  std::vector<std::string> uplinks = link::RoutedUplinks(node.host, node.inventory.links);
  // A bridge of allocations that has a port beyond the node is one, too: they are to pass.
  std::erase_if(uplinks, [&](const std::string& name) { return node.gateways.contains(name); });
  if (node.gateways.empty() || uplinks.size() < 2 || !node.host.net.ForwardsAll(Family::kIpv4)) {
    return;
  }
  const auto is_between = [&](const nft::Socket::TableChain& each) {
    const bool is_forward = each.chain.hook && each.chain.hook->point == nft::Hook::Point::kForward;
    return (is_forward && each.chain.hook->drops) ||
           std::ranges::any_of(node.host.nft.Rules(each.table, each.chain.name),
                               IsBetweenInterfaces);
  };
  std::vector<nft::Socket::TableChain> chains = node.host.nft.Chains();
  std::erase_if(chains,
                [](const auto& each) { return each.table.name == firewall::TableId().name; });
  if (std::ranges::none_of(chains, is_between)) {
    const auto command = [](const std::string& in, const std::string& out) {
      return Format("iptables -I NOMAD-ADMIN -i {} -o {} -j DROP", ShellWord(in), ShellWord(out));
    };
    node.Warn(Format("this node also routes between '{}' and '{}'; if that is meant, it can be "
                     "ignored",
                     uplinks[0],
                     uplinks[1]),
              Format("{} && {}", command(uplinks[0], uplinks[1]), command(uplinks[1], uplinks[0])));
  }
}

// The node's way beyond is lost, or will be once what it learnt expires. One that was configured
// needs no advertisements.
void CheckAdvertisements(Examination& node) {
  if (!node.host.net.ForwardsAll(Family::kIpv6)) {
    return;
  }
  const std::optional<int> way = node.host.net.LookupOutputInterface(link::Beyond(Family::kIpv6));
  std::set<int> learnt;
  for (const rtnl::Socket::LearntRoute& each : node.host.net.LearntRoutes()) {
    learnt.insert(each.link);
  }
  const std::vector<rtnl::Link> uplinks = link::Uplinks(node.inventory.links);
  // With a link that is set down went its routes.
  const bool is_set_down = std::ranges::any_of(uplinks, [&](const rtnl::Link& link) {
    return !link.up && !node.host.net.Addresses(link).empty();
  });
  for (const rtnl::Link& link : uplinks) {
    const std::string setting = netlink::Ipv6Setting(link.name, "accept_ra");
    const bool is_lost = !way && !is_set_down;
    if (link.operational && (is_lost || learnt.contains(link.index)) && link.ipv6 &&
        link.ipv6->accept_ra == 1) {
      node.Warn(Format("'{}' takes no router advertisements: {} is 1, and the node forwards IPv6",
                       link.name,
                       setting),
                Cat("sysctl -w ", ShellWord(Cat(setting, "=2"))));
    }
  }
}

// An allocation in two networks answers by the default route through one, also from its address in
// the other.
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
      node.Warn(Format("rp_filter of '{}' is strict: what allocations in two networks answer is "
                       "dropped",
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
  for (const auto& [what, fix] : firewall::FindForeignDrops(node.host.nft, MarkBitOf(node))) {
    node.Fail(what, fix);
  }
}

constexpr std::array kKernelTable = {
    Check{"kernel.nf_tables", Cost::kCheap, CheckNfTables},
    Check{"kernel.bridge", Cost::kCheap, CheckBridgeModule},
    Check{"kernel.br_netfilter", Cost::kCheap, CheckBrNetfilter},
    Check{"kernel.conntrack", Cost::kCheap, CheckConntrack},
    Check{"conntrack.full", Cost::kCheap, CheckConntrackRoom},
    Check{"kernel.backlog", Cost::kCheap, CheckBacklog},
    Check{"sysctl.ip_forward", Cost::kCheap, CheckForwarding},
    Check{"sysctl.accept_ra", Cost::kDear, CheckAdvertisements},
    Check{"sysctl.rp_filter", Cost::kCheap, CheckReversePath},
    Check{"sysctl.route_localnet", Cost::kCheap, CheckByReconcile<Area::kLocalhost>},
    Check{"table.intact", Cost::kCheap, CheckByReconcile<Area::kTable, Area::kElement>},
    Check{"static_rules", Cost::kCheap, CheckByReconcile<Area::kStaticRules>},
    Check{"forward.foreign", Cost::kCheap, CheckForeignChains},
    Check{"forward.uplinks", Cost::kDear, CheckRouting},
    Check{"firewalld.zone", Cost::kDear, CheckByReconcile<Area::kOtherFirewall>},
    Check{"ports.orphan", Cost::kCheap, CheckByReconcile<Area::kLeftOver>},
};

}  // namespace

const std::span<const Check> kKernelChecks = kKernelTable;

}  // namespace nomad_bridge::cli
