#include "plugin/rules/published_port_warnings.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "firewall/table.h"
#include "netlink/sockets/listeners.h"
#include "plugin/link/forwarding.h"

namespace nomad_bridge::rules {
namespace {

// Uses the same test as the rules ("fib daddr type local"): an address routed to lo is local.
void WarnOfAbsentAddresses(state::Host& host, const state::Record& record) {
  std::map<Ip, bool> is_local;
  for (const portmap::DnatEntry& port : record.rules.ports) {
    if (!port.host_ip) {
      continue;
    }
    const auto [known, is_new] = is_local.try_emplace(*port.host_ip);
    if (is_new) {
      known->second = host.net.LookUpRoute({.destination = *port.host_ip}).is_local;
    }
    if (!known->second) {
      LogLine(
          "host port {} is published on an address that is none of this node's; it answers once "
          "the node has the address",
          portmap::DescribeHostPort(port));
    }
  }
}

// Returns whether packets for `listener` go to `port` from now on. Packets to ::1 do not: see
// portmap/rules.cc.
bool IsShadowedBy(const sockets::Listener& listener, const portmap::DnatEntry& port) {
  if (listener.port != port.host_port) {
    return false;
  }
  if (port.host_ip) {
    return listener.Accepts(*port.host_ip);
  }
  const Family family = port.container_ip.family();
  return listener.both_families || (listener.address.family() == family &&
                                    (family == Family::kIpv4 || !listener.address.IsLoopback()));
}

}  // namespace

std::vector<std::string> FindOwnListeners(state::Host& host, const state::Record& record) {
  std::vector<std::string> found;
  std::set<std::pair<Protocol, std::uint16_t>> named;
  for (const portmap::DnatEntry& port : record.rules.ports) {
    const auto protocol = port.protocol;
    if (port.protocol == Protocol::kSctp) {
      continue;  // SCTP sockets are not listed
    }
    // One line per protocol and port, even if it is published on several addresses.
    const std::vector<sockets::Listener>& all = host.Listeners(protocol);
    const auto listener = std::ranges::find_if(
        all, [&](const sockets::Listener& each) { return IsShadowedBy(each, port); });
    if (listener != all.end() && named.emplace(port.protocol, port.host_port).second) {
      found.push_back(Format("host port {} is also used by the node: {} listens on {}",
                             portmap::DescribeHostPort(port),
                             sockets::HolderOf(listener->inode),
                             listener->address));
    }
  }
  return found;
}

FindingList FindForwardingOff(state::Host& host, const state::Record& record) {
  if (!record.link.gateways.empty()) {
    return {};
  }
  FindingList off;
  for (const Family family : firewall::kFamilies) {
    const bool has_port = std::ranges::any_of(
        record.rules.ports,
        [&](const portmap::DnatEntry& port) { return port.container_ip.family() == family; });
    // Asks only for the node's setting: while it is off, the settings of single links do not
    // matter.
    if (has_port && !host.net.ForwardsAll(family)) {
      off.push_back(link::ForwardingOff(link::ForwardingOf(family), record.id.container_id));
    }
  }
  return off;
}

void WarnOfPorts(state::Host& host, const state::Record& record) {
  for (const Finding& finding : FindForwardingOff(host, record)) {
    LogLine("{}", finding.text);
  }
  WarnOfAbsentAddresses(host, record);
  for (const std::string& listener : FindOwnListeners(host, record)) {
    LogLine("{}; the published port takes precedence", listener);
  }
}

}  // namespace nomad_bridge::rules
