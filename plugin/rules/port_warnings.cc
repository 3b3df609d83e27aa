#include "plugin/rules/port_warnings.h"

#include <map>

#include "base/log.h"
#include "portmap/rules.h"

namespace nomad_bridge::rules {
namespace {

// The question that the rules ask too ("fib daddr type local"): what is routed to lo is local.
void WarnOfAbsentAddresses(state::Host& host, const state::Record& record) {
  std::map<Ip, bool> is_local;
  for (const portmap::DnatEntry& port : record.rules.ports) {
    if (!port.host_ip) {
      continue;
    }
    const auto [known, is_new] = is_local.try_emplace(*port.host_ip);
    if (is_new) {
      known->second = host.net.LookupOutputInterface(*port.host_ip) == rtnl::kLoopbackIndex;
    }
    if (!known->second) {
      LogLine(
          "host port {} is published on an address that is none of this node's; it answers once "
          "the node has the address",
          portmap::DescribeHostPort(port));
    }
  }
}

}  // namespace

void WarnOfPorts(state::Host& host, const state::Record& record) {
  WarnOfAbsentAddresses(host, record);
}

}  // namespace nomad_bridge::rules
