#include "plugin/cli/side_mismatches.h"

#include <algorithm>
#include <set>

#include "base/list.h"
#include "base/text.h"
#include "firewall/foreign_drops.h"
#include "netlink/core/netns.h"
#include "netlink/sockets/listeners.h"
#include "plugin/attachment/reconcile.h"
#include "plugin/link/container.h"
#include "portmap/mapping.h"

namespace nomad_bridge::cli {
namespace {

using Lines = std::vector<std::string>;

Lines HostMismatches(state::Host& host, const Attachment& attachment) {
  if (attachment.state == State::kMaking || attachment.state == State::kLeaving) {
    return {Format("an attachment that is {}", Text(attachment.state))};
  }
  const std::optional<FileLock> lock = host.records.TryLock(attachment.id);
  if (!lock || attachment.state == State::kDead) {
    return {};
  }
  const attachment::Scope scope = {.extent = attachment::Scope::Extent::kOne,
                                   .record = &*attachment.record};
  return attachment::Reconcile(host, scope, Mode::kLook).mismatches.TextsLeft();
}

Lines RouteMismatches(rtnl::Socket& container, const Attachment& attachment) {
  const state::Record& record = *attachment.record;
  const std::optional<rtnl::Link> link = container.FindLink(attachment.id.ifname);
  if (!link) {
    return {Format("no interface '{}'", attachment.id.ifname)};
  }
  if (!link->up) {
    return {Format("interface '{}' is down", attachment.id.ifname)};
  }
  Lines mismatches;
  if (std::optional<std::string> mismatch = link::FindMacMismatch(*link, record)) {
    mismatches.push_back(*std::move(mismatch));
  }
  const std::vector<Ip> present = AddressesOnly(container.Addresses(*link));
  for (const Cidr& address : record.ipam.addresses) {
    if (!Contains(present, address.address)) {
      mismatches.push_back(
          Format("interface '{}' has lost {}", attachment.id.ifname, address.address));
    }
  }
  const std::vector<Route> routes = container.Routes();
  std::set<Family> published;
  for (const portmap::DnatEntry& port : record.rules.ports) {
    published.insert(port.container_ip.family());
  }
  for (const Family family : published) {
    const auto is_default = [&](const Route& route) {
      return route.destination.prefix_length == 0 && route.destination.address.family() == family;
    };
    if (std::ranges::none_of(routes, is_default)) {
      mismatches.push_back(Format("no default route for {}: answers find no way back",
                                  family == Family::kIpv4 ? "IPv4" : "IPv6"));
    }
  }
  return mismatches;
}

// Of each container port: on which of its addresses nobody listens.
Lines ListenerMismatches(const netlink::Netns& container, const state::Record& record) {
  Lines mismatches;
  for (const portmap::DnatEntry& port : record.rules.ports) {
    if (port.protocol == portmap::Protocol::kSctp) {
      continue;  // whose sockets are not listed
    }
    const std::vector<sockets::Listener> all = sockets::Listeners(
        container, static_cast<sockets::Protocol>(port.protocol), port.container_port);
    const auto accepts = [&](const sockets::Listener& each) {
      return each.Accepts(port.container_ip);
    };
    if (std::ranges::any_of(all, accepts)) {
      continue;
    }
    const std::string where = Cat(portmap::Text(port.protocol), '/', port.container_port);
    const std::string mismatch = all.empty() ? Cat("no listener on ", where)
                                             : Format("the listener on {} is on {}:{}, not on {}",
                                                      where,
                                                      Bracketed(all.front().address),
                                                      port.container_port,
                                                      port.container_ip);
    if (!Contains(mismatches, mismatch)) {
      mismatches.push_back(mismatch);
    }
  }
  return mismatches;
}

// The namespace may go at any moment.
Lines ContainerMismatches(const Attachment& attachment) {
  const state::Record& record = *attachment.record;
  const std::optional<netlink::Netns> netns = netlink::Netns::Find(record.netns_path);
  if (attachment.state == State::kDead) {
    return {"its namespace is gone"};
  }
  if (!netns || netns->id() != record.netns) {
    return {Format("its namespace is not to be seen at '{}'", record.netns_path)};
  }
  rtnl::Socket container = rtnl::Socket::In(*netns);
  Lines mismatches = RouteMismatches(container, attachment);
  Append(mismatches, ListenerMismatches(*netns, record));
  return mismatches;
}

Lines PathMismatches(state::Host& host, const state::Record& record) {
  Lines mismatches;
  const int mark_bit = record.rules.forward_hook.accept_mark_bit;
  for (const firewall::ForeignDrop& drop : firewall::FindForeignDrops(host.nft, mark_bit)) {
    mismatches.push_back(drop.what);
  }
  return mismatches;
}

}  // namespace

const std::string* SideMismatches::FindCause() const {
  for (const Lines* const mismatches : {&host, &path, &container}) {
    if (!mismatches->empty()) {
      return &mismatches->front();
    }
  }
  return nullptr;
}

SideMismatches FindSideMismatches(state::Host& host, const Attachment& attachment) {
  return {.host = HostMismatches(host, attachment),
          .path = PathMismatches(host, *attachment.record),
          .container = ContainerMismatches(attachment)};
}

}  // namespace nomad_bridge::cli
