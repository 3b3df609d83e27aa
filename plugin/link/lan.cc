#include "plugin/link/lan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "plugin/link/bridge.h"
#include "plugin/link/liveness.h"
#include "plugin/link/uplink.h"

namespace nomad_bridge::link {
namespace {

std::vector<Cidr> GatewaysOn(state::Host& host, const std::string& bridge) {
  std::vector<Cidr> gateways;
  for (const AttachmentId& id : host.records.List("")) {
    const std::optional<state::Record> record = host.records.Find(id);
    if (record && record->link.gateway_ifname == bridge) {
      Append(gateways, record->link.gateways);
    }
  }
  return gateways;
}

std::vector<Cidr> LanAddresses(std::vector<Cidr> addresses, const std::vector<Cidr>& gateways) {
  std::erase_if(addresses, [&](const Cidr& cidr) {
    return cidr.address.IsLinkLocal() || Contains(gateways, cidr);
  });
  return addresses;
}

std::set<std::string> WithoutTaps(rtnl::Socket& net, std::set<std::string> uplinks) {
  std::erase_if(uplinks, [&](const std::string& name) {
    const std::optional<rtnl::Link> link = net.FindLink(name);
    return link && link->kind == "tun";
  });
  return uplinks;
}

std::vector<Cidr> Lost(const std::vector<Cidr>& known, const std::vector<Cidr>& present) {
  std::vector<Cidr> lost = known;
  std::erase_if(lost, [&](const Cidr& cidr) { return HasFamily(present, cidr.address.family()); });
  return lost;
}

std::set<std::string> Lost(rtnl::Socket& net,
                           std::set<std::string> known,
                           const std::set<std::string>& present) {
  if (!present.empty()) {
    return {};
  }
  std::erase_if(known, [&](const std::string& name) {
    const std::optional<rtnl::Link> link = net.FindLink(name);
    return link && link->master != 0;
  });
  return known;
}

// One that is known by another MAC than ours.
std::optional<rtnl::Link> FindOperators(state::Host& host, const std::string& name) {
  std::optional<rtnl::Link> bridge = host.net.FindLink(name);
  return bridge && !IsMadeByUs(*bridge) ? std::move(bridge) : std::nullopt;
}

}  // namespace

state::Checkpoint::Bridge Observe(state::Host& host,
                                  const rtnl::Link& bridge,
                                  state::Checkpoint::Bridge known,
                                  std::set<std::string> uplinks) {
  std::vector<Cidr> addresses;
  if (!IsMadeByUs(bridge)) {
    const std::vector<Cidr> gateways = GatewaysOn(host, bridge.name);
    addresses = LanAddresses(host.net.Addresses(bridge), gateways);
    uplinks = WithoutTaps(host.net, std::move(uplinks));
    uplinks.merge(Lost(host.net, std::move(known.uplinks), uplinks));
    Append(addresses, Lost(LanAddresses(known.addresses, gateways), addresses));
    known.made = known.made && uplinks.empty();
  }
  known.uplinks = std::move(uplinks);
  known.addresses = std::move(addresses);
  return known;
}

bool IsMissingBridgeOperators(state::Host& host, const state::Record& record) {
  const state::Checkpoint::Bridge known = KnownBridge(host, record.link.bridge);
  if (known.made) {
    return false;
  }
  const auto is_operators = [&](const state::Record& each) {
    return each.link.bridge == record.link.bridge && each.link.adopted &&
           (each.link.gateways.empty() || !known.uplinks.empty());
  };
  LiveAttachments others(host, record.id);
  // One that nobody has used is not known: no record needs to be read.
  return is_operators(record) ||
         (known.index != 0 && std::ranges::any_of(others.records(), is_operators));
}

std::vector<Mismatch> FindLostUplinks(state::Host& host,
                                      const std::string& bridge,
                                      const std::set<std::string>& host_veths) {
  const std::optional<rtnl::Link> link = FindOperators(host, bridge);
  if (!link) {
    return {};
  }
  std::vector<Mismatch> mismatches;
  const std::set<std::string> present =
      WithoutTaps(host.net, FindUplinks(host.net, *link, host_veths));
  for (const std::string& name : Lost(host.net, KnownBridge(host, bridge).uplinks, present)) {
    const bool is_there = host.net.FindLink(name).has_value();
    mismatches.push_back(
        {.owner = bridge,
         .text = Format("'{}' is no port of bridge '{}' any more, and was its way "
                        "to the LAN",
                        name,
                        bridge),
         .repairable = false,
         .fix = is_there ? Format("ip link set {} up master {}", ShellWord(name), ShellWord(bridge))
                         : Fix::Advice(Format("bring '{}' back, into the bridge", name))});
  }
  return mismatches;
}

std::vector<Mismatch> FindIdleUplinks(state::Host& host, const std::string& bridge) {
  const std::optional<rtnl::Link> link = FindOperators(host, bridge);
  std::vector<Mismatch> mismatches;
  for (const std::string& name : KnownBridge(host, bridge).uplinks) {
    const std::optional<rtnl::Link> port = host.net.FindLink(name);
    if (!link || !link->up || !port || port->master != link->index) {
      continue;
    }
    if (port->operational && port->forwarding) {
      return {};
    }
    const auto add = [&](const std::string& what, Fix fix) {
      mismatches.push_back(
          {.owner = bridge,
           .text = Format("'{}', the way of bridge '{}' to its LAN, {}", name, bridge, what),
           .repairable = false,
           .fix = std::move(fix)});
    };
    if (!port->up) {
      add("is down", Format("ip link set {} up", ShellWord(name)));
    } else if (!port->operational) {
      add("has no carrier", Fix::Advice(Format("plug in what '{}' stands for", name)));
    } else if (link->forward_delay == 0) {
      add("does not forward", Format("bridge link set dev {} state 3", ShellWord(name)));
    } else {
      add("does not forward",
          Fix::Advice("the bridge's spanning tree has blocked it, or is still learning: see that "
                      "another port leads to the LAN"));
    }
  }
  return mismatches;
}

std::vector<Mismatch> FindLostAddresses(state::Host& host, const std::string& bridge) {
  const std::optional<rtnl::Link> link = FindOperators(host, bridge);
  if (!link) {
    return {};
  }
  std::vector<Mismatch> mismatches;
  const std::vector<Cidr> gateways = GatewaysOn(host, bridge);
  for (const Cidr& address : Lost(LanAddresses(KnownBridge(host, bridge).addresses, gateways),
                                  LanAddresses(host.net.Addresses(*link), gateways))) {
    mismatches.push_back(
        {.owner = bridge,
         .text = Format("the node has lost its address {} on bridge '{}'", address, bridge),
         .repairable = false,
         .fix = Format("ip address add {} dev {}", address, ShellWord(bridge))});
  }
  return mismatches;
}

}  // namespace nomad_bridge::link
