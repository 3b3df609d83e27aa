#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/list.h"
#include "base/text.h"
#include "plugin/attachment/collect.h"
#include "plugin/causes/cause.h"
#include "plugin/cli/doctor.h"
#include "plugin/cli/terminal.h"
#include "plugin/config/node_config.h"
#include "plugin/link/bridge.h"
#include "plugin/link/subnet.h"
#include "plugin/link/uplink.h"
#include "plugin/rules/published_port_warnings.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::cli {
namespace {

using Area = Mismatch::Area;

// Returns whether the address is in a range of RFC 1918, 3927, 4193 or 6598, or is a loopback
// address.
bool IsPrivate(const Ip& address) {
  for (const char* const text :
       {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"}) {
    const std::optional<Cidr> range = Cidr::Parse(text);
    if (range && range->Overlaps({address, address.is_ipv4() ? 32 : 128})) {
      return true;
    }
  }
  return address.IsLoopback() || address.IsLinkLocal();
}

bool IsOurs(const rtnl::Link& link) {
  return state::ParseAlias(link.alias).has_value();
}

std::set<Ip> PublicAddresses(const Examination& node) {
  std::set<Ip> addresses;
  for (const rtnl::Link& link : node.inventory.links) {
    if (IsOurs(link) || node.gateways.contains(link.name)) {
      continue;
    }
    for (const Cidr& cidr : node.host.net.Addresses(link)) {
      if (!IsPrivate(cidr.address)) {
        addresses.insert(cidr.address);
      }
    }
  }
  return addresses;
}

// Returns whether gc would free an address or a port of the bridge in this network.
bool HasDead(const Examination& node, const std::string& network) {
  return std::ranges::any_of(node.inventory.attachments, [&](const Attachment& each) {
    return each.state == State::kDead && each.id.network == network;
  });
}

void CheckUsage(Examination& node,
                std::string_view what,
                std::optional<Usage> Network::*usage,
                const Fix& fix) {
  constexpr std::uint64_t kFew = 20;  // a twentieth: 5 %
  for (const Network& network : node.inventory.networks) {
    const std::optional<Usage>& of = network.*usage;
    if (of && of->free() <= of->total / kFew) {
      node.Add(
          of->free() == 0 ? Verdict::kFail : Verdict::kWarn,
          Format("{} of network '{}': {} of {} in use", what, network.name, of->used, of->total),
          HasDead(node, network.name) ? kGcFix : fix);
    }
  }
}

// Returns a line for each subnet of our gateways that `route`, which leads through another link,
// takes addresses from.
std::set<std::string> OverlapsWith(const Examination& node,
                                   const Route& route,
                                   const rtnl::Link& link) {
  std::set<std::string> overlaps;
  for (const auto& [gateway_ifname, record] : node.gateways) {
    for (const Cidr& gateway : record->link.gateways) {
      if (gateway_ifname != link.name && link::TakesAddressesOf(route, gateway, *record)) {
        overlaps.insert(Format("{}/{} of '{}' overlaps with {} by '{}'",
                               gateway.Network(),
                               gateway.prefix_length,
                               gateway_ifname,
                               route.destination,
                               link.name));
      }
    }
  }
  return overlaps;
}

void CheckWorldPorts(Examination& node) {
  const std::set<Ip> addresses = PublicAddresses(node);
  std::vector<std::string> open;
  for (const Attachment* const attachment : node.publishing) {
    for (const portmap::DnatEntry& port : attachment->record->rules.ports) {
      const auto address = std::ranges::find_if(addresses, [&](const Ip& each) {
        return port.host_ip ? *port.host_ip == each : each.family() == port.container_ip.family();
      });
      if (address != addresses.end()) {
        open.push_back(Format("port {} of '{}' answers on the public address {}",
                              portmap::DescribeHostPort(port),
                              attachment->Allocation(),
                              *address));
      }
    }
  }
  node.AddAll(
      Verdict::kWarn,
      open,
      Fix::Advice("to close the port: give it a host_network with a private address in its job. If "
                  "it is meant to be open, or a rule in NOMAD-ADMIN closes it: "
                  R"({"ignore": ["ports.world"]} in )" +
                  std::string(config::kNodeConfigFile)));
}

// Checks all ports in one call, so that the node's listeners are listed once.
void CheckShadowedPorts(Examination& node) {
  state::Record all;
  for (const Attachment* const attachment : node.publishing) {
    Append(all.rules.ports, attachment->record->rules.ports);
  }
  node.AddAll(Verdict::kWarn,
              rules::FindOwnListeners(node.host, all),
              Fix::Advice("stop the service, or move it to another port: connections to the "
                          "published port reach only the allocation"));
}

void CheckOrphanLeases(Examination& node) {
  attachment::Collection collection{.recorded = std::map<AttachmentId, std::string>()};
  for (const Attachment& attachment : node.inventory.attachments) {
    if (attachment.record) {
      collection.recorded->emplace(attachment.id, attachment.record->ipam.data_dir);
    }
  }
  const attachment::ReconcileReport leases =
      attachment::Collect(node.host, collection, Mode::kLook);
  node.AddAll(Verdict::kWarn, leases.mismatches.TextsLeft(), kGcFix);
}

void CheckLeasesLeft(Examination& node) {
  CheckUsage(node,
             "addresses",
             &Network::addresses,
             Fix::Advice("a larger subnet in its conflist, or a second network"));
}

void CheckBridgePorts(Examination& node) {
  CheckUsage(node,
             "ports of the bridge",
             &Network::ports,
             Fix::Advice("a second network with a bridge of its own: a bridge has 1,023 ports"));
  node.AddMismatches({Area::kPort});
}

// Returns the bridges of running allocations, each with whether a network has its gateway on the
// bridge. The gateway of a VLAN is on a link of its own.
std::map<std::string, bool> BridgesInUse(const Examination& node) {
  std::map<std::string, bool> bridges;
  for (const Attachment* const attachment : node.running) {
    const state::Record::Link& link = attachment->record->link;
    if (attachment->record->IsLive(cni::Part::kLink)) {
      bool& has_gateway = bridges[link.bridge];
      has_gateway = has_gateway || !link.gateways.empty();
    }
  }
  return bridges;
}

void WarnOfDeadEnd(Examination& node, const std::string& bridge) {
  if (link::IsDeadEnd(node.host.net, bridge)) {
    node.Warn(link::DescribeDeadEnd(bridge),
              Fix::Advice(Cat("for a LAN: ip link set UPLINK master ",
                              ShellWord(bridge),
                              R"(; for a gateway: "isGateway": true in the conflist; if it is )"
                              R"(meant: {"ignore": ["bridge.uplink"]} in )",
                              config::kNodeConfigFile)));
  }
}

// Reports bridges with neither an uplink nor a gateway. Also reports bridges of ours that have an
// uplink: the rules treat all machines behind the uplink as allocations.
void CheckUplinks(Examination& node) {
  const std::map<std::string, bool> bridges = BridgesInUse(node);
  for (const rtnl::Link& bridge : node.inventory.links) {
    const auto used = bridges.find(bridge.name);
    if (used == bridges.end()) {
      continue;
    }
    if (!used->second) {
      WarnOfDeadEnd(node, bridge.name);
    }
    if (!link::IsMadeByUs(bridge)) {
      continue;  // the operator's bridge may have an uplink
    }
    for (const std::string& port : link::FindUplinks(node.inventory.links, bridge)) {
      node.Warn(Format("'{}' is a port of our bridge '{}': machines behind '{}' reach its "
                       "allocations",
                       port,
                       bridge.name,
                       port),
                Format("ip link set {} nomaster", ShellWord(port)));
    }
  }
}

void CheckMtu(Examination& node) {
  const int uplink = link::MtuOf(node.host.net, config::kUplinkMtu);
  std::map<std::string, int> most;  // by network
  for (const Attachment* const attachment : node.running) {
    int& mtu = most[attachment->id.network];
    mtu = std::max(mtu, attachment->link ? attachment->link->mtu : 0);
  }
  for (const auto& [network, mtu] : most) {
    if (uplink != 0 && mtu > uplink) {
      node.Warn(Format("allocations of network '{}' have an MTU of {}, the way out of the node has "
                       "{}: large packets may get lost",
                       network,
                       mtu,
                       uplink),
                Fix::Advice(R"("mtu": "auto" in its conflist, for new allocations)"));
    }
  }
}

void CheckSubnets(Examination& node) {
  std::map<int, std::vector<Route>> routes = node.host.net.RoutesByLink();
  for (const rtnl::Link& link : node.inventory.links) {
    if (IsOurs(link)) {
      continue;
    }
    std::set<std::string> overlaps;
    for (const Route& route : routes[link.index]) {
      overlaps.merge(OverlapsWith(node, route, link));
    }
    const std::optional<Fix> fix = overlaps.empty() || node.gateways.contains(link.name)
                                       ? std::nullopt
                                       : link::FindFixForIdle(node.host.net, link);
    node.AddAll(
        Verdict::kFail, {overlaps.begin(), overlaps.end()}, fix.value_or(causes::AnotherSubnet()));
  }
}

// Reports attachments without a readable record.
void CheckLostRecords(Examination& node) {
  std::vector<std::string> lost;
  for (const Attachment& attachment : node.inventory.attachments) {
    if (attachment.IsRecordLost()) {
      const std::string what = Cat(state::LostRecord(attachment.id).text,
                                   attachment.problem.empty() ? "" : ": ",
                                   attachment.problem);
      const std::optional<struct stat> status = FindStatus(attachment.path);
      if (status && S_ISDIR(status->st_mode)) {
        node.Fail(what, MoveAway(attachment.path));
      } else if (attachment::HasVoidRecordAndNoLink(node.host, attachment.id)) {
        node.Fail(what, kGcFix);
      } else {
        lost.push_back(what);
      }
    }
  }
  node.AddAll(Verdict::kFail, lost, Fix::Advice(kLostRecordAdvice));
}

// Reports lost records, records of a newer release, and attachments whose ADD or DEL has not ended
// although no command holds their lock any more.
void CheckRecords(Examination& node) {
  CheckLostRecords(node);
  std::vector<std::string> unfinished;
  std::vector<std::string> newer;
  for (const Attachment& attachment : node.inventory.attachments) {
    if (attachment.record && attachment.record->is_of_newer_release) {
      newer.push_back(
          Format("the record of container '{}' is of a newer release", attachment.id.container_id));
    }
    const bool is_making = attachment.state == State::kMaking;
    if ((is_making || attachment.state == State::kLeaving) &&
        node.host.records.TryLock(attachment.id)) {
      unfinished.push_back(Format("{} of container '{}' was killed",
                                  is_making ? "an ADD" : "a DEL",
                                  attachment.id.container_id));
    }
  }
  node.AddAll(Verdict::kWarn, unfinished, kGcFix);
  node.AddAll(Verdict::kWarn,
              newer,
              Fix::Advice("this release can read the record, but not write it: install the newer "
                          "release again, or replace the allocation"));
}

void CheckDead(Examination& node) {
  std::size_t attachments = 0;
  std::size_t addresses = 0;
  for (const Attachment& attachment : node.inventory.attachments) {
    if (attachment.state == State::kDead) {
      ++attachments;
      addresses += attachment.record ? attachment.record->ipam.addresses.size() : 0;
    }
  }
  if (attachments != 0) {
    node.Warn(Format("{} {} {}",
                     Counted(attachments, "attachment"),
                     attachments == 1 ? "holds" : "hold",
                     addresses == 1 ? "1 address" : Cat(addresses, " addresses")),
              kGcFix);
  }
}

constexpr std::array kNetworkTable = {
    Check{"ports.world", Cost::kCheap, CheckWorldPorts},
    Check{"ports.shadowed", Cost::kCheap, CheckShadowedPorts},
    Check{"leases.missing", Cost::kCheap, CheckByReconcile<Area::kLease>},
    Check{"leases.orphan", Cost::kDear, CheckOrphanLeases},
    Check{"leases.exhausted", Cost::kCheap, CheckLeasesLeft},
    Check{"bridge.intact", Cost::kCheap, CheckByReconcile<Area::kBridge>},
    Check{"bridge.ports", Cost::kCheap, CheckBridgePorts},
    Check{"bridge.uplink", Cost::kCheap, CheckUplinks},
    Check{"bridge.mac", Cost::kDear, CheckMacs},
    Check{"bridge.mtu", Cost::kCheap, CheckMtu},
    Check{"bridge.subnet_overlap", Cost::kCheap, CheckSubnets},
    Check{"containers", Cost::kDear, CheckContainers},
    Check{"ports.blocked", Cost::kDear, CheckBlockedPorts},
    Check{"ports.probe", Cost::kProbes, ProbePorts},
    Check{"records", Cost::kCheap, CheckRecords},
    Check{"dead", Cost::kCheap, CheckDead},
};

}  // namespace

const std::span<const Check> kNetworkChecks = kNetworkTable;

}  // namespace nomad_bridge::cli
