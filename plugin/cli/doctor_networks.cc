#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/file.h"
#include "base/file_lock.h"
#include "base/list.h"
#include "base/memo.h"
#include "base/text.h"
#include "plugin/attachment/collect.h"
#include "plugin/causes/explain.h"
#include "plugin/causes/in_container.h"
#include "plugin/causes/on_node.h"
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

using Area = Finding::Area;
using Severity = Finding::Severity;

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
          of->free() == 0 ? Severity::kFault : Severity::kWarning,
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
      Severity::kWarning,
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
  node.AddAll(Severity::kWarning,
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
  node.AddAll(Severity::kWarning, leases.findings.TextsLeft(), kGcFix);
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
  node.AddFindings({Area::kPort});
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

// Reports routing rules that lead packets for an allocation elsewhere.
void CheckRoutingRules(Examination& node) {
  causes::NodeFacts facts(node.host);
  FindingList found;
  for (const auto& [gateway_ifname, record] : node.gateways) {
    for (const Ip& address : AddressesOnly(record->ipam.addresses)) {
      Append(found, causes::FindDetourByRule(facts, *record, address));
    }
  }
  node.AddUnreported(std::move(found));
}

void CheckSubnets(Examination& node) {
  CheckRoutingRules(node);
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
    node.AddAll(Severity::kFault,
                {overlaps.begin(), overlaps.end()},
                fix.value_or(Fix::Advice(
                    "another subnet in the conflist, then start its allocations anew")));
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
  node.AddAll(Severity::kFault, lost, Fix::Advice(kLostRecordAdvice));
}

// Reports lost records, records of a newer release, and attachments whose ADD or DEL has not ended
// although no command holds their lock any more.
void CheckRecords(Examination& node) {
  CheckLostRecords(node);
  FindingList killed;
  std::vector<std::string> newer;
  for (const Attachment& attachment : node.inventory.attachments) {
    if (attachment.record && attachment.record->is_of_newer_release) {
      newer.push_back(
          Format("the record of container '{}' is of a newer release", attachment.id.container_id));
    }
    std::optional<Finding> found = attachment.FindKilled();
    if (found && node.host.records.TryLock(attachment.id)) {
      found->severity = Severity::kWarning;
      killed.push_back(*std::move(found));
    }
  }
  node.AddAll(std::move(killed));
  node.AddAll(Severity::kWarning,
              newer,
              Fix::Advice("this release can read the record, but not write it: install the newer "
                          "release again, or replace the allocation"));
}

// Finds what blocks connections from anywhere to published ports, as far as this can be seen
// without sending packets. Examines only once the things that several ports share.
class BlockedPorts {
 public:
  explicit BlockedPorts(state::Host& host) : facts_(host) {}

  FindingList FindCauses(const state::Record& record) {
    FindingList found;
    std::set<Ip> addresses;
    for (const portmap::DnatEntry& port : record.rules.ports) {
      Append(found, OnNode(record, port));
      if (addresses.insert(port.container_ip).second) {
        Append(found, causes::FindToContainer(facts_, record, port.container_ip));
      }
    }
    return found;
  }

 private:
  // Returns the causes on the node. Ports share them if they have the same gateway, host address
  // and family, and their answers take the same kind of route.
  const FindingList& OnNode(const state::Record& record, const portmap::DnatEntry& port) {
    return AskOnce(on_node_,
                   {record.link.gateway_ifname,
                    record.link.gateways.empty(),
                    record.rules.had_default_route.Has(port.container_ip.family()),
                    port.host_ip,
                    port.container_ip.family()},
                   [&] {
                     const auto connection = planner_.ToPort(record, port, std::nullopt);
                     FindingList found = causes::FindOnNode(facts_, record, port, connection);
                     if (connection && connection->uplink) {
                       Append(found, causes::FindBlackhole(facts_.host.net, *connection->uplink));
                     }
                     return found;
                   });
  }

  causes::NodeFacts facts_;
  causes::Planner planner_{facts_};
  std::map<std::tuple<std::string, bool, bool, std::optional<Ip>, Family>, FindingList> on_node_;
};

// Reports what does not end by itself.
void CheckBlockedPorts(Examination& node) {
  BlockedPorts blocked(node.host);
  FindingList found;
  for (const Attachment* const attachment : node.publishing) {
    for (Finding& cause : blocked.FindCauses(*attachment->record)) {
      if (cause.severity != Severity::kNote && !Contains(found, cause)) {
        found.push_back(std::move(cause));
      }
    }
  }
  node.AddUnreported(std::move(found));
}

// ---- the containers

void CheckMacs(Examination& node) {
  FindingList found;
  for (const Attachment* const attachment : node.running) {
    const state::Record& record = *attachment->record;
    const bool is_ours = attachment->link && record.IsLive(cni::Part::kLink);
    const auto inside = is_ours ? node.host.net.FindPeer(*attachment->link) : std::nullopt;
    std::optional<Finding> wrong =
        inside ? link::FindWrongMac(*inside, link::ExpectedBy(record)) : std::nullopt;
    std::optional<causes::Inside> opened = wrong ? causes::OpenInside(record) : std::nullopt;
    if (wrong && !(opened && causes::FindFrameReaderNote(*opened))) {
      wrong->owner = record.id.container_id;
      found.push_back(*std::move(wrong));
    }
  }
  node.AddAll(std::move(found));
}

// Skips a namespace that is gone by now, or that cannot be seen from here: that is no fault of the
// allocation.
void CheckContainers(Examination& node) {
  FindingList found;
  for (const Attachment* const attachment : node.running) {
    if (std::optional<causes::Inside> inside = causes::OpenInside(*attachment->record)) {
      Append(found, causes::FindInContainer(*inside, std::nullopt));
      Append(found, causes::FindSmallerEnd(node.host, *inside));
    }
  }
  node.AddUnreported(std::move(found));
}

// Returns whether all of our rules about the attachment are there.
bool AreRulesWhole(Examination& node, const Attachment& attachment) {
  return std::ranges::none_of(node.Reconciled().left(), [&](const Finding& each) {
    return each.IsOfRules() && (each.owner.empty() || each.owner == attachment.id.container_id);
  });
}

// Reports what the rules drop now because a network's config says so. The sender gets no error.
// What they drop because some are missing is not what the config says.
void CheckDrops(Examination& node) {
  Inventory inventory = node.inventory;
  AddDrops(node.host, inventory);
  FindingList found;
  for (const Attachment& attachment : inventory.attachments) {
    for (const Dropped& dropped : attachment.drops) {
      if (dropped.finding.severity == Severity::kWarning && AreRulesWhole(node, attachment)) {
        found.push_back(dropped.finding);
      }
    }
  }
  node.AddAll(std::move(found));
}

constexpr std::array kNetworkTable = {
    Check{"ports.world", CheckWorldPorts},
    Check{"ports.shadowed", CheckShadowedPorts},
    Check{"leases.missing", CheckByReconcile<Area::kLease>},
    Check{"leases.orphan", CheckOrphanLeases},
    Check{"leases.exhausted", CheckLeasesLeft},
    Check{"bridge.intact", CheckByReconcile<Area::kBridge>},
    Check{"bridge.ports", CheckBridgePorts},
    Check{"bridge.uplink", CheckUplinks},
    Check{"bridge.mac", CheckMacs},
    Check{"bridge.mtu", CheckMtu},
    Check{"bridge.subnet_overlap", CheckSubnets},
    Check{"containers", CheckContainers},
    Check{"ports.blocked", CheckBlockedPorts},
    Check{"drops", CheckDrops},
    Check{"records", CheckRecords},
};

}  // namespace

const std::span<const Check> kNetworkChecks = kNetworkTable;

}  // namespace nomad_bridge::cli
