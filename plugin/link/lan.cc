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

// An address of `port`, whose neighbours answer to the bridge: what the node sends them by `port`
// waits for ever. Those that the bridge reaches, too, have a way.
std::optional<Cidr> FindDark(rtnl::Socket& net,
                             const rtnl::Link& port,
                             const std::vector<Cidr>& on_bridge) {
  for (const Cidr& cidr : net.Addresses(port)) {
    // Not of IPv6, where one that a router advertised stays for days.
    const bool has_neighbours = cidr.prefix_length < cidr.address.bits();
    if (cidr.address.is_ipv4() && has_neighbours && !cidr.address.IsLinkLocal() &&
        std::ranges::none_of(on_bridge, [&](const Cidr& each) { return each.Overlaps(cidr); })) {
      return cidr;
    }
  }
  return std::nullopt;
}

// The node's addresses that the bridge, an operator's, had.
std::vector<Cidr> LostAddresses(state::Host& host, const rtnl::Link& bridge) {
  const std::vector<Cidr> gateways = GatewaysOn(host, bridge.name);
  return Lost(LanAddresses(KnownBridge(host, bridge.name).addresses, gateways),
              LanAddresses(host.net.Addresses(bridge), gateways));
}

std::optional<rtnl::Link> FindPortWith(rtnl::Socket& net,
                                       const rtnl::Link& bridge,
                                       const Cidr& address) {
  for (const rtnl::Link& link : net.Links()) {
    if (link.master == bridge.index && Contains(net.Addresses(link), address)) {
      return link;
    }
  }
  return std::nullopt;
}

// From `port` to `bridge`, with the default route, which the kernel takes away with the last
// address.
Fix MoveAddress(rtnl::Socket& net,
                const rtnl::Link& port,
                const rtnl::Link& bridge,
                const Cidr& address) {
  const rtnl::RouteAnswer way = net.LookUpRoute({.destination = Beyond(address.address.family())});
  std::string command = Format("ip address del {} dev {} && ip address add {} dev {}",
                               address,
                               ShellWord(port.name),
                               address,
                               ShellWord(bridge.name));
  if (way.error == 0 && way.link == port.index && way.gateway) {
    command += Format(" && ip {}route replace default via {} dev {}",
                      way.gateway->is_ipv4() ? "" : "-6 ",
                      *way.gateway,
                      ShellWord(bridge.name));
  }
  return Fix(command);
}

// Of a link that is no port of the bridge.
bool IsElsewhere(rtnl::Socket& net, const rtnl::Link& bridge, const Ip& address) {
  return std::ranges::any_of(net.Links(), [&](const rtnl::Link& link) {
    return link.master != bridge.index && Contains(AddressesOnly(net.Addresses(link)), address);
  });
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

std::vector<Mismatch> FindLostUplinks(state::Host& host, const std::string& bridge) {
  const std::optional<rtnl::Link> link = FindOperators(host, bridge);
  if (!link) {
    return {};
  }
  std::vector<Mismatch> mismatches;
  const std::set<std::string> present = WithoutTaps(host.net, FindUplinks(host.net, *link));
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

std::vector<IdleLink> FindIdleUplinks(state::Host& host, const std::string& bridge) {
  const std::optional<rtnl::Link> link = FindOperators(host, bridge);
  return link ? FindIdlePorts(host, *link) : std::vector<IdleLink>();
}

std::vector<IdleLink> FindIdlePorts(state::Host& host, const rtnl::Link& bridge) {
  if (!bridge.up) {
    return {};
  }
  std::vector<IdleLink> all;
  for (const std::string& name : WithoutTaps(host.net, FindUplinks(host.net, bridge))) {
    const std::optional<rtnl::Link> port = host.net.FindLink(name);
    if (!port || port->master != bridge.index) {
      continue;
    }
    if (port->operational && port->forwarding) {
      return {};
    }
    IdleLink idle = port->operational ? DescribeHeldPort(*port, bridge) : DescribeIdle(*port);
    idle.text = Format("'{}', the way of bridge '{}' to its LAN, {}", name, bridge.name, idle.text);
    all.push_back(std::move(idle));
  }
  return all;
}

std::vector<Mismatch> FindDarkPorts(state::Host& host,
                                    const rtnl::Link& bridge,
                                    const std::set<std::string>& uplinks) {
  std::vector<Mismatch> mismatches;
  if (uplinks.empty()) {
    return mismatches;  // which spares reading all records
  }
  const std::vector<Cidr> on_bridge = host.net.Addresses(bridge);
  const std::vector<Cidr> of_node = LanAddresses(on_bridge, GatewaysOn(host, bridge.name));
  const bool is_node_reached = HasFamily(of_node, Family::kIpv4);
  if (uplinks.size() == 1 && is_node_reached) {
    return mismatches;  // by the bridge, whatever else the port still has
  }
  const std::vector<Cidr> lost =
      IsMadeByUs(bridge) ? std::vector<Cidr>() : LostAddresses(host, bridge);
  for (const std::string& name : uplinks) {
    const std::optional<rtnl::Link> port = host.net.FindLink(name);
    const std::optional<Cidr> dark = port ? FindDark(host.net, *port, on_bridge) : std::nullopt;
    if (port && port->master == bridge.index && dark && !Contains(lost, *dark)) {
      const std::string out = Format("ip link set {} nomaster", ShellWord(name));
      mismatches.push_back(
          {.owner = bridge.name,
           .text = Format("'{}', which has the node's address {}, is a port of bridge '{}': "
                          "nobody is reached by it any more",
                          name,
                          *dark,
                          bridge.name),
           .repairable = false,
           .fix = !is_node_reached && !IsMadeByUs(bridge)
                      ? Fix::Advice(Format(
                            "give '{}' the address, or take the port out: {}", bridge.name, out))
                      : Fix(out)});
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
  for (const Cidr& address : LostAddresses(host, *link)) {
    if (IsElsewhere(host.net, *link, address.address)) {
      continue;  // its operator has moved it
    }
    const std::optional<rtnl::Link> port = FindPortWith(host.net, *link, address);
    mismatches.push_back(
        {.owner = bridge,
         .text = port ? Format("the node's address {} is on '{}', not on bridge '{}', whose port "
                               "that is: nobody is reached by it any more",
                               address,
                               port->name,
                               bridge)
                      : Format("the node has lost its address {} on bridge '{}'", address, bridge),
         .repairable = false,
         .fix = port ? MoveAddress(host.net, *port, *link, address)
                     : Fix(Format("ip address add {} dev {}", address, ShellWord(bridge)))});
  }
  return mismatches;
}

}  // namespace nomad_bridge::link
