#include "plugin/causes/journey.h"

#include <algorithm>

#include "base/list.h"
#include "base/memo.h"
#include "base/text.h"
#include "firewall/table.h"
#include "plugin/link/uplink.h"

namespace nomad_bridge::causes {
namespace {

std::vector<Cidr> GlobalAddresses(NodeFacts& facts, const rtnl::Link& link, Family family) {
  std::vector<Cidr> addresses = facts.Addresses(link);
  std::erase_if(addresses, [&](const Cidr& cidr) {
    return cidr.address.family() != family || cidr.address.IsLinkLocal();
  });
  return addresses;
}

std::optional<Cidr> GlobalAddress(NodeFacts& facts, const rtnl::Link& link, Family family) {
  const std::vector<Cidr> addresses = GlobalAddresses(facts, link, family);
  return addresses.empty() ? std::nullopt : std::optional(addresses.front());
}

bool HasAddress(NodeFacts& facts, const rtnl::Link& link, const Ip& address) {
  return Contains(AddressesOnly(facts.Addresses(link)), address);
}

// Of two that qualify the one that works.
template <typename Qualifies>
std::optional<rtnl::Link> FindUplink(const std::vector<rtnl::Link>& uplinks,
                                     const Qualifies& qualifies) {
  std::optional<rtnl::Link> found;
  for (const rtnl::Link& link : uplinks) {
    if (qualifies(link) && (!found || (!found->operational && link.operational))) {
      found = link;
    }
  }
  return found;
}

// Machines beyond `uplink` and neighbours on it, without a default route there these alone.
std::vector<Ip> AnyoneBeyond(NodeFacts& facts, const rtnl::Link& uplink, Family family) {
  std::vector<Ip> anyone;
  const Ip beyond = link::Beyond(family);
  const rtnl::RouteAnswer way = facts.host.net.LookUpRoute({.destination = beyond});
  if (way.error == 0 && way.link == uplink.index) {
    anyone = {beyond,
              Ip::Parse(family == Family::kIpv4 ? "1.1.1.1" : "2606:4700:4700::1111").value()};
  }
  const std::optional<Cidr> own = GlobalAddress(facts, uplink, family);
  constexpr int kFew = 3;
  for (int i = 1; own && own->prefix_length < own->address.bits() - 1 && i <= kFew; ++i) {
    const Ip neighbour = own->Network().Plus(static_cast<std::uint64_t>(i));
    if (neighbour != own->address && own->Contains(neighbour) && neighbour != own->Last()) {
      anyone.push_back(neighbour);
    }
  }
  return anyone;
}

}  // namespace

std::string IpTool(Family family) {
  return family == Family::kIpv4 ? "ip" : "ip -6";
}

std::optional<Ip> OwnGateway(const state::Record& record, Family family) {
  const auto gateway = std::ranges::find_if(
      record.link.gateways, [&](const Cidr& each) { return each.address.family() == family; });
  return gateway == record.link.gateways.end() ? std::nullopt : std::optional(gateway->address);
}

std::string InsideFix(const state::Record& record, const std::string& command) {
  return Format("nsenter --net={} {}", ShellWord(record.netns_path), command);
}

rtnl::RouteQuery AnswersTo(const Ip& client, const Journey& journey, int input_link) {
  return {.destination = client,
          .source = journey.port.container_ip,
          .flow = rtnl::Flow{.protocol = static_cast<std::uint8_t>(journey.port.protocol),
                             .source_port = journey.port.container_port,
                             .destination_port = kClientPort},
          .input_link = input_link,
          .mark = input_link == 0 ? 0 : journey.marks.answer};
}

std::string Journey::Protocol() const {
  return std::string(portmap::Text(port.protocol));
}

std::string Journey::ClientText() const {
  return Cat(is_client_named ? "" : "clients beyond the node, such as ", *client);
}

std::optional<rtnl::Link> Planner::UplinkOf(const rtnl::RouteAnswer& way) {
  if (way.error != 0 || way.link == 0 || way.link == rtnl::kLoopbackIndex) {
    return std::nullopt;
  }
  const auto uplink = std::ranges::find(facts_.Uplinks(), way.link, &rtnl::Link::index);
  return uplink != facts_.Uplinks().end() ? *uplink : facts_.FindLink(way.link);
}

bool Planner::HasWayBeyond() {
  return std::ranges::any_of(firewall::kFamilies, [&](Family family) {
    return UplinkOf(net_.LookUpRoute({.destination = link::Beyond(family)})).has_value();
  });
}

std::optional<rtnl::Link> Planner::UplinkOfAnyone(const portmap::DnatEntry& port) {
  const Family family = port.container_ip.family();
  std::optional<rtnl::Link> uplink;
  if (port.host_ip) {
    uplink = FindUplink(facts_.Uplinks(), [&](const rtnl::Link& link) {
      return HasAddress(facts_, link, *port.host_ip);
    });
  }
  if (!uplink) {
    uplink = UplinkOf(net_.LookUpRoute({.destination = link::Beyond(family)}));
  }
  if (!uplink && !HasWayBeyond()) {
    // With a link that is set down go its routes, and its IPv6 addresses.
    uplink = FindUplink(facts_.Uplinks(), [&](const rtnl::Link& link) {
      return !link.up && !facts_.Addresses(link).empty();
    });
  }
  if (!uplink) {
    uplink = FindUplink(facts_.Uplinks(), [&](const rtnl::Link& link) {
      return GlobalAddress(facts_, link, family).has_value();
    });
  }
  if (!uplink && family == Family::kIpv6) {
    uplink = FindUplink(facts_.Uplinks(), [&](const rtnl::Link& link) {
      const bool lacks_ipv6 = (link.ipv6 && link.ipv6->disabled) || link.mtu < config::kMinIpv6Mtu;
      return lacks_ipv6 && GlobalAddress(facts_, link, Family::kIpv4);
    });
  }
  return uplink;
}

void Planner::AddOtherNodes(Journey& journey) {
  for (const rtnl::Link& link : facts_.Uplinks()) {
    std::vector<Ip>& nodes = link.index == journey.uplink->index ? journey.also : journey.elsewhere;
    Append(nodes, AddressesOnly(GlobalAddresses(facts_, link, journey.family())));
  }
  std::erase(journey.also, journey.node);
}

std::optional<std::string> Planner::BareUplink() {
  const bool has_address = facts_.HasAddress(Family::kIpv4) || facts_.HasAddress(Family::kIpv6);
  const auto works = std::ranges::find(facts_.Uplinks(), true, &rtnl::Link::operational);
  return has_address || works == facts_.Uplinks().end() ? std::nullopt : std::optional(works->name);
}

std::optional<Ip> Planner::NextHopOf(const Journey& journey) {
  if (!journey.uplink || !journey.client) {
    return std::nullopt;
  }
  const rtnl::RouteAnswer way = net_.LookUpRoute({.destination = *journey.client});
  if (way.error != 0 || way.link != journey.uplink->index) {
    return std::nullopt;
  }
  return way.gateway ? way.gateway : journey.client;
}

Journey Planner::Plan(const state::Record& record,
                      const portmap::DnatEntry& port,
                      const std::optional<Ip>& client) {
  Journey journey = AskOnce(planned_, {port.container_ip.family(), port.host_ip, client}, [&] {
    return PlanAnew(port, client);
  });
  journey.record = &record;
  journey.port = port;
  return journey;
}

Journey Planner::PlanAnew(const portmap::DnatEntry& port, const std::optional<Ip>& client) {
  Journey journey{.port = port,
                  .client = client,
                  .node = port.host_ip,
                  .uplink = std::nullopt,
                  .is_client_named = client.has_value()};
  const Family family = journey.family();
  if (client) {
    const rtnl::RouteAnswer way = net_.LookUpRoute({.destination = *client});
    journey.uplink = way.error == 0 ? UplinkOf(way) : UplinkOfAnyone(port);
  } else if (!port.host_ip || !port.host_ip->IsLoopback()) {
    journey.uplink = UplinkOfAnyone(port);
    if (journey.uplink) {
      journey.others = AnyoneBeyond(facts_, *journey.uplink, family);
    }
    if (!journey.others.empty()) {
      journey.client = journey.others.front();
      journey.others.erase(journey.others.begin());
    }
  }
  if (journey.uplink && !journey.node) {
    const std::optional<Cidr> own = GlobalAddress(facts_, *journey.uplink, family);
    journey.node = own ? std::optional(own->address) : std::nullopt;
    AddOtherNodes(journey);
  }
  journey.next_hop = NextHopOf(journey);
  if (!journey.uplink && !client && !port.host_ip) {
    journey.bare_uplink = BareUplink();
  }
  return journey;
}

}  // namespace nomad_bridge::causes
