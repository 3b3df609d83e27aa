#include "base/text.h"
#include "plugin/causes/in_container.h"
#include "plugin/link/uplink.h"

namespace nomad_bridge::causes {
namespace {

// Finds the other interface by which the container's answers from `address` leave.
std::optional<rtnl::Link> FindOtherWay(rtnl::Socket& container,
                                       const rtnl::Link& own,
                                       const Ip& address) {
  const rtnl::RouteAnswer way = container.LookUpRoute(
      {.destination = link::InternetAddress(address.family()), .source = address});
  return way.error == 0 && way.link != own.index ? container.FindLink(way.link) : std::nullopt;
}

// Finds the record of the same container's attachment with the interface `link`, if the host drops
// foreign addresses from that interface.
std::optional<state::Record> FindChecked(state::Host& host,
                                         const state::Record& record,
                                         const rtnl::Link& link) {
  const std::optional<rtnl::Link> outside =
      link.kind == "veth" && link.peer_netns ? host.net.FindLink(link.peer) : std::nullopt;
  std::optional<state::Record> other =
      outside ? host.records.FindOwner(outside->name) : std::nullopt;
  const bool is_checked = other && other->link.port.source_check && other->id != record.id &&
                          other->netns == record.netns;
  return is_checked ? other : std::nullopt;
}

}  // namespace

Causes FindSecondNetwork(state::Host& host, Interior& inside) {
  auto& [netns, record, container, own] = inside;
  if (!own || record.rules.ports.empty()) {
    return {};
  }
  const Ip& address = record.rules.ports.front().container_ip;
  const std::optional<rtnl::Link> way = FindOtherWay(container, *own, address);
  const std::optional<state::Record> other = way ? FindChecked(host, record, *way) : std::nullopt;
  if (!other) {
    return {};
  }
  return {{.text = Format(
               "its answers from {} leave by '{}', and sourceCheck of network '{}' drops them",
               address,
               way->name,
               other->id.network),
           .fix = OwnGateway(record, address.family())
                      ? FixByOwnTable(*own, record, address)
                      : Fix::Advice(Cat("publish the port in network ", other->id.network))}};
}

}  // namespace nomad_bridge::causes
