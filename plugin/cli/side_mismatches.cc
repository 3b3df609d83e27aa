#include "plugin/cli/side_mismatches.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

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

// Whether, and where, somebody listens on a container port.
struct Listening {
  std::string where;          // "tcp/80"
  bool is_answered = false;   // on the address that packets come for
  std::string mismatch = {};  // why not
};

Listening FindListener(const netlink::Netns& container, const portmap::DnatEntry& port) {
  Listening listening{.where = Cat(portmap::Text(port.protocol), '/', port.container_port)};
  if (port.protocol == portmap::Protocol::kSctp) {
    listening.is_answered = true;  // whose sockets are not listed
    return listening;
  }
  const std::vector<sockets::Listener> all = sockets::Listeners(
      container, static_cast<sockets::Protocol>(port.protocol), port.container_port);
  listening.is_answered = std::ranges::any_of(
      all, [&](const sockets::Listener& each) { return each.Accepts(port.container_ip); });
  listening.mismatch = all.empty() ? Cat("no listener on ", listening.where)
                                   : Format("the listener on {} is on {}:{}, not on {}",
                                            listening.where,
                                            Bracketed(all.front().address),
                                            port.container_port,
                                            port.container_ip);
  return listening;
}

// What is published for several protocols is a fault only where none of them is listened on.
void LookForListeners(const netlink::Netns& container,
                      const state::Record& record,
                      SideMismatches& sides) {
  using Target = std::pair<Ip, std::uint16_t>;
  std::map<Target, std::vector<Listening>> targets;
  for (const portmap::DnatEntry& port : record.rules.ports) {
    targets[{port.container_ip, port.container_port}].push_back(FindListener(container, port));
  }
  for (const auto& each : targets) {
    const auto answered = std::ranges::find_if(each.second, &Listening::is_answered);
    for (const Listening& listening : each.second) {
      Lines& lines = answered == each.second.end() ? sides.container : sides.notes;
      const std::string line =
          answered == each.second.end()
              ? listening.mismatch
              : Format("{}, but {} is answered", listening.mismatch, answered->where);
      if (!listening.is_answered && !Contains(lines, line)) {
        lines.push_back(line);
      }
    }
  }
}

// The namespace may go at any moment.
void LookInside(const Attachment& attachment, SideMismatches& sides) {
  const state::Record& record = *attachment.record;
  const std::optional<netlink::Netns> netns = netlink::Netns::Find(record.netns_path);
  if (attachment.state == State::kDead) {
    sides.container = {"its namespace is gone"};
  } else if (!netns || netns->id() != record.netns) {
    sides.container = {Format("its namespace is not to be seen at '{}'", record.netns_path)};
  } else {
    rtnl::Socket container = rtnl::Socket::In(*netns);
    sides.container = RouteMismatches(container, attachment);
    LookForListeners(*netns, record, sides);
  }
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
  SideMismatches sides{.host = HostMismatches(host, attachment),
                       .path = PathMismatches(host, *attachment.record)};
  LookInside(attachment, sides);
  return sides;
}

}  // namespace nomad_bridge::cli
