#include <algorithm>

#include "base/list.h"
#include "base/text.h"
#include "plugin/causes/blockers.h"
#include "plugin/causes/in_container.h"
#include "plugin/link/uplink.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::causes {
namespace {

// Its default route leads to an address that does not answer there, and is none of the node's.
Causes FindAbsentGateway(rtnl::Socket& container,
                         const rtnl::Link& link,
                         const state::Record& record,
                         Family family) {
  const std::optional<Ip> configured = FindGateway(record, family);
  if (!configured) {
    return {};
  }
  for (const Route& route : container.Routes(link)) {
    if (route.destination.prefix_length != 0 || !route.gateway ||
        route.gateway->family() != family || route.gateway == configured ||
        !container.UnansweredFor(link, *route.gateway)) {
      continue;
    }
    return {{.text = Format("its default route leads to {}, which is not there", *route.gateway),
             .fix = FixByGateway(
                 record,
                 *configured,
                 Format("{} route replace default via {}", IpTool(family), *configured))}};
  }
  return {};
}

// As ADD gave it to both ends.
int MtuOf(rtnl::Socket& net, const state::Record& record) {
  constexpr int kOfVeths = 1500;
  const int mtu = link::MtuOf(net, record.link.mtu);
  return mtu == 0 ? kOfVeths : mtu;
}

// The other end takes no larger packets than its own MTU.
Causes FindSmallerEnd(state::Host& host, const rtnl::Link& link, const state::Record& record) {
  const std::optional<rtnl::Link> outside =
      link.kind == "veth" ? host.net.FindLink(state::HostVethName(record.id)) : std::nullopt;
  if (!outside || outside->index != link.peer || outside->mtu >= link.mtu) {
    return {};
  }
  const int made = MtuOf(host.net, record);
  return {
      {.text = Format("the MTU of '{}' is {}, that of its other end '{}' {}: larger packets "
                      "are lost",
                      link.name,
                      link.mtu,
                      outside->name,
                      outside->mtu),
       .fix = outside->mtu < made
                  ? Format("ip link set {} mtu {}", outside->name, made)
                  : InsideFix(record,
                              Format("ip link set {} mtu {}", ShellWord(link.name), outside->mtu)),
       .ends = false}};
}

// An interface by which answers leave, too: of routes to everywhere with one priority the kernel
// takes now this one and now that. nullopt if there is none but `own`.
std::optional<rtnl::Link> FindOtherDefault(rtnl::Socket& container,
                                           const rtnl::Link& own,
                                           Family family) {
  const auto has_default = [&](const rtnl::Link& link) {
    return std::ranges::any_of(container.Routes(link), [&](const Route& route) {
      return route.destination.prefix_length == 0 && route.destination.address.family() == family &&
             route.table == kMainTable;
    });
  };
  for (const rtnl::Link& link : container.Links()) {
    if (link.index != own.index && has_default(link)) {
      return link;
    }
  }
  return std::nullopt;
}

// To the node, or another container: what is sent there may well come back.
bool LeadsToAnother(const rtnl::Link& link) {
  return link.kind == "veth" && link.peer_netns;
}

// By a table of its own what has `address` leaves by `own`, whatever the other routes are.
Fix FixByOwnTable(const rtnl::Link& own, const state::Record& record, const Ip& address) {
  const std::optional<Ip> gateway = OwnGateway(record, address.family());
  if (!gateway) {
    return Fix::Advice(
        Format("have what has the address {} leave by '{}' there", address, own.name));
  }
  constexpr int kFirstTable = 100;
  const int table = kFirstTable + own.index;
  const std::string tool = IpTool(address.family());
  return InsideFix(record,
                   Format("sh -c '{} rule add from {} lookup {} && {} route add default via {} "
                          "table {}'",
                          tool,
                          address,
                          table,
                          tool,
                          *gateway,
                          table));
}

// Such as that of a VPN: what comes back to the client by another way than the node has not the
// port's address. A client that is not named stands for all.
Causes FindStrayWay(rtnl::Socket& container,
                    const rtnl::Link& own,
                    const rtnl::Link& other_way,
                    const Journey& journey) {
  const Ip& address = journey.port.container_ip;
  const auto leaves_by_own = [&](const Ip& client) {
    const rtnl::RouteAnswer way = container.LookUpRoute(AnswersTo(client, journey, 0));
    return way.error == 0 && way.link == own.index;
  };
  const bool is_of_all = own.master == 0 && other_way.index != rtnl::kLoopbackIndex &&
                         !leaves_by_own(*journey.client) &&
                         std::ranges::none_of(journey.others, leaves_by_own);
  return is_of_all ? Causes{{.text = Format("answers leave by '{}', not by '{}': those to {}",
                                            other_way.name,
                                            own.name,
                                            journey.ClientText()),
                             .fix = FixByOwnTable(own, *journey.record, address)}}
                   : Causes();
}

// By the interface of another network, which drops what is not from its own address.
Causes FindOtherWay(state::Host& host,
                    const rtnl::Link& own,
                    const rtnl::Link& other_way,
                    const state::Record& record,
                    const Ip& address) {
  const std::optional<rtnl::Link> outside =
      LeadsToAnother(other_way) ? host.net.FindLink(other_way.peer) : std::nullopt;
  const std::optional<state::Record> other =
      outside ? host.records.FindOwner(outside->name) : std::nullopt;
  if (!other || !other->link.port.source_check || other->id == record.id ||
      other->netns != record.netns) {
    return {};
  }
  return {{.text = Format("what it answers from {} leaves by '{}', and sourceCheck of network '{}' "
                          "drops it",
                          address,
                          other_way.name,
                          other->id.network),
           .fix = OwnGateway(record, address.family())
                      ? FixByOwnTable(own, record, address)
                      : Fix::Advice(Cat("publish the port in network ", other->id.network))}};
}

}  // namespace

Causes FindInAnswers(state::Host& host, Interior& inside, const Journey& journey) {
  auto& [netns, record, container, own] = inside;
  const Ip& address = journey.port.container_ip;
  if (!journey.client || !own || !Contains(AddressesOnly(container.Addresses(*own)), address)) {
    return {};
  }
  const rtnl::RouteQuery query = AnswersTo(*journey.client, journey, 0);
  const rtnl::RouteAnswer way = container.LookUpRoute(query);
  if (way.error != 0 && !HasDefaultRoute(container.Routes(), address.family())) {
    return {};  // FindInContainer() says so
  }
  if (way.error != 0) {
    return FindBlockers(container,
                        query,
                        Format("what it answers does not get to {}", journey.ClientText()),
                        InsideFix(record, ""));
  }
  const std::optional<rtnl::Link> other_way =
      way.link != own->index    ? container.FindLink(way.link)
      : way.table == kMainTable ? FindOtherDefault(container, *own, address.family())
                                : std::nullopt;
  if (other_way) {
    return LeadsToAnother(*other_way) ? FindOtherWay(host, *own, *other_way, record, address)
                                      : FindStrayWay(container, *own, *other_way, journey);
  }
  Causes causes = FindAbsentGateway(container, *own, record, address.family());
  Append(causes, FindSmallerEnd(host, *own, record));
  return causes;
}

}  // namespace nomad_bridge::causes
