#include "plugin/cli/side_faults.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/list.h"
#include "base/text.h"
#include "firewall/foreign_drops.h"
#include "netlink/core/netns.h"
#include "netlink/sockets/listeners.h"
#include "plugin/attachment/repair.h"
#include "portmap/mapping.h"

namespace nomad_bridge::cli {
namespace {

using Lines = std::vector<std::string>;

// The link alone; what is more, DiffHostSide() tells.
std::optional<std::string> FindLinkFault(const Attachment& attachment, const Inventory& links) {
  const std::string& bridge = attachment.record->link.bridge;
  const rtnl::Link* const master = links.FindLink(bridge);
  if (master == nullptr) {
    return Format("bridge '{}' is missing", bridge);
  }
  if (!attachment.link) {
    return Format("interface '{}' is missing", attachment.host_veth);
  }
  if (attachment.link->master != master->index) {
    return Format("interface '{}' is not in bridge '{}'", attachment.host_veth, bridge);
  }
  if (!attachment.link->up) {
    return Format("interface '{}' is down", attachment.host_veth);
  }
  return master->up ? std::nullopt : std::optional(Format("bridge '{}' is down", bridge));
}

Lines HostFaults(state::Host& host, const Attachment& attachment) {
  Lines faults;
  if (attachment.state == State::kMaking || attachment.state == State::kLeaving) {
    return {Format("an attachment that is {}", Text(attachment.state))};
  }
  if (attachment.record->Has(cni::Part::kLink)) {
    const std::optional<std::string> fault = FindLinkFault(attachment, {.links = host.net.Links()});
    if (fault) {
      faults.push_back(*fault);
    }
  }
  const std::optional<RangeLock> lock = host.records.TryLock(attachment.id);
  if (lock && attachment.state != State::kDead) {
    for (std::string& mismatch : attachment::DiffHostSide(host, *attachment.record)) {
      faults.push_back(std::move(mismatch));
    }
  }
  return faults;
}

// Whether `routes` lead anywhere outside.
bool HasDefaultRoute(const std::vector<Route>& routes, Family family) {
  return std::ranges::any_of(routes, [&](const Route& route) {
    return route.destination.prefix_length == 0 && route.destination.address.family() == family;
  });
}

Lines RouteFaults(rtnl::Socket& guest, const Attachment& attachment) {
  const state::Record& record = *attachment.record;
  const std::optional<rtnl::Link> link = guest.FindLink(attachment.id.ifname);
  if (!link) {
    return {Format("no interface '{}'", attachment.id.ifname)};
  }
  if (!link->up) {
    return {Format("interface '{}' is down", attachment.id.ifname)};
  }
  Lines faults;
  const std::vector<Ip> present = AddressesOnly(guest.Addresses(*link));
  for (const Cidr& address : record.ipam.addresses) {
    if (!Contains(present, address.address)) {
      faults.push_back(Format("interface '{}' has lost {}", attachment.id.ifname, address.address));
    }
  }
  const std::vector<Route> routes = guest.Routes();
  std::set<Family> published;
  for (const portmap::DnatEntry& port : record.rules.ports) {
    published.insert(port.container_ip.family());
  }
  for (const Family family : published) {
    if (!HasDefaultRoute(routes, family)) {
      faults.push_back(Format("no default route for {}: answers find no way back",
                              family == Family::kIpv4 ? "IPv4" : "IPv6"));
    }
  }
  return faults;
}

// nullopt for a protocol whose sockets are not listed.
std::optional<sockets::Protocol> SocketsOf(portmap::Protocol protocol) {
  switch (protocol) {
    case portmap::Protocol::kTcp:
      return sockets::Protocol::kTcp;
    case portmap::Protocol::kUdp:
      return sockets::Protocol::kUdp;
    case portmap::Protocol::kSctp:
      return std::nullopt;
  }
  return std::nullopt;
}

std::string Endpoint(const Ip& ip, std::uint16_t port) {
  return ip.is_ipv4() ? Cat(ip, ':', port) : Cat('[', ip, "]:", port);
}

// Of one container port: on which of its addresses nobody listens.
std::optional<std::string> FindListenerFault(const netlink::Netns& guest,
                                             const portmap::DnatEntry& port,
                                             sockets::Protocol protocol) {
  const std::vector<sockets::Listener> all =
      sockets::Listeners(guest, protocol, port.container_port);
  const auto accepts = [&](const sockets::Listener& each) {
    return each.Accepts(port.container_ip);
  };
  if (std::ranges::any_of(all, accepts)) {
    return std::nullopt;
  }
  const std::string where = Cat(portmap::Text(port.protocol), '/', port.container_port);
  if (all.empty()) {
    return Format("no listener on {}", where);
  }
  return Format("the listener on {} is on {}, not on {}",
                where,
                Endpoint(all.front().address, port.container_port),
                port.container_ip);
}

Lines ListenerFaults(const netlink::Netns& guest, const state::Record& record) {
  Lines faults;
  for (const portmap::DnatEntry& port : record.rules.ports) {
    const std::optional<sockets::Protocol> protocol = SocketsOf(port.protocol);
    std::optional<std::string> fault =
        protocol ? FindListenerFault(guest, port, *protocol) : std::nullopt;
    if (fault && !Contains(faults, *fault)) {
      faults.push_back(*std::move(fault));
    }
  }
  return faults;
}

// The namespace may go at any moment.
Lines GuestFaults(const Attachment& attachment) {
  const state::Record& record = *attachment.record;
  const std::optional<netlink::Netns> netns = netlink::Netns::Find(record.netns_path);
  if (attachment.state == State::kDead) {
    return {"its namespace is gone"};
  }
  if (!netns || netns->id() != record.netns) {
    return {Format("its namespace is not to be seen at '{}'", record.netns_path)};
  }
  rtnl::Socket guest = rtnl::Socket::In(*netns);
  Lines faults = RouteFaults(guest, attachment);
  Append(faults, ListenerFaults(*netns, record));
  return faults;
}

Lines PathFaults(state::Host& host, const state::Record& record) {
  Lines faults;
  for (const std::string& chain :
       firewall::ForeignDrops(host.nft, record.rules.forward_hook.accept_mark_bit)) {
    faults.push_back(Cat(chain, " comes after ours and drops"));
  }
  return faults;
}

}  // namespace

const std::string* SideFaults::FindCause() const {
  for (const Lines* const faults : {&host, &path, &guest}) {
    if (!faults->empty()) {
      return &faults->front();
    }
  }
  return nullptr;
}

SideFaults FindSideFaults(state::Host& host, const Attachment& attachment) {
  return {.host = HostFaults(host, attachment),
          .path = PathFaults(host, *attachment.record),
          .guest = GuestFaults(attachment)};
}

}  // namespace nomad_bridge::cli
