#include "plugin/attachment/segment.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "plugin/foreign/other_firewalls.h"
#include "plugin/link/bridge.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/bridge_netfilter.h"
#include "plugin/rules/check_ruleset.h"
#include "plugin/rules/localhost.h"

namespace nomad_bridge::attachment {
namespace {

// Plugs every host veth whose record names `bridge` into it. Returns the live parts of the
// attachments whose veth was not a port of it.
std::vector<state::Record> CheckPorts(state::Host& host,
                                      const rtnl::Link& bridge,
                                      Findings& findings) {
  std::vector<state::Record> moved;
  link::LiveAttachments all(host, {});
  for (const state::Record& record : all.records()) {
    const auto find_veth = [&] {
      return link::FindHostVeth(host.net, record.id, link::Recorded::kYes);
    };
    const std::optional<rtnl::Link> veth =
        record.IsLive(cni::Part::kLink) && record.link.bridge == bridge.name ? find_veth()
                                                                             : std::nullopt;
    if (!veth || veth->master == bridge.index) {
      continue;
    }
    // Kept apart from `findings`: if a DEL removes the link meanwhile, the finding of this port
    // cannot be repaired. The CHECK of another attachment must not fail because of it.
    Findings of_port(findings.mode());
    try {
      link::CheckHostVeth(host, record, veth, bridge, of_port);
      findings.AddAll(std::move(of_port));
      moved.push_back(record.OnlyLive());
    } catch (const Error&) {
      // If the link is gone, a DEL was faster: the attachment's lock is not held here.
      if (find_veth()) {
        throw;
      }
    }
  }
  return moved;
}

// Plugs the ports back into a bridge that we have just created again. Reads all records. If
// somebody else has created it, CHECK and reconcile find its ports.
void PlugInPorts(state::Host& host, const rtnl::Link& bridge, Findings& findings) {
  const std::vector<state::Record> moved = CheckPorts(host, bridge, findings);
  if (!moved.empty()) {
    // Rules before route_localnet, which is safe only while they are in force.
    rules::CheckTables(host, moved, findings);
  }
  for (const state::Record& record : moved) {
    rules::CheckLocalhost(host, record, findings);
  }
}

}  // namespace

std::string SegmentKey(const state::Record& record) {
  std::string key = Format("{} {} {} {} {} {} {}",
                           record.link.bridge,
                           record.link.gateway_ifname,
                           record.link.promisc_mode ? "promiscuous" : "",
                           static_cast<int>(record.link.force_address),
                           record.IsLive(cni::Part::kLink) ? "link" : "",
                           record.link.port.vlans ? "vlan" : "",
                           rules::HasLocalhostPorts(record) ? "localhost" : "");
  for (const Cidr& gateway : record.link.gateways) {
    key += Cat(' ', gateway);
  }
  for (const std::string& ifname : record.link.foreign_host_ifnames) {
    key += Cat(' ', ifname);
  }
  return key;
}

std::optional<rtnl::Link> CheckSegment(state::Host& host,
                                       const state::Record& record,
                                       Findings& findings) {
  if (!record.IsLive(cni::Part::kLink)) {
    return std::nullopt;
  }
  link::CheckedBridge bridge = link::CheckBridge(host, record, findings);
  if (bridge.link) {
    rules::CheckBridgeNetfilter(host, *bridge.link, record, findings);
  }
  if (bridge.is_new) {
    // Only once the bridge has its addresses: containers send to the gateway as soon as their ports
    // are plugged in.
    PlugInPorts(host, *bridge.link, findings);
  }
  return std::move(bridge.link);
}

void EnsureSegment(state::Host& host, const state::Record& record) {
  Findings silent = Findings::Silently();
  const std::optional<rtnl::Link> bridge = CheckSegment(host, record, silent);
  const auto left = std::ranges::find_if(silent.left(), [&](const Finding& finding) {
    return finding.area == Finding::Area::kBridge && finding.owner == record.link.bridge;
  });
  if (left != silent.left().end()) {
    const Fix& fix = left->fix;
    throw Error(Code::kConflict, left->text, fix.command.empty() ? fix.advice : fix.Line());
  }
  for (const Finding& finding : silent.left()) {
    if (finding.area == Finding::Area::kNode) {
      // What takes the network's packets need not stay: a VPN's rule.
      LogLine("{}", finding.TextWithFix());
    }
  }
  if (bridge) {
    rules::RequireBridgeNetfilter(host, *bridge, record);
  }
}

void EnsureNetwork(state::Host& host, const state::Record& record) {
  EnsureSegment(host, record);
  if (!record.HasRules()) {
    return;
  }
  {
    const FileLock one_at_a_time = host.records.LockRules();
    rules::EnsureTables(host, record);
  }
  Findings silent = Findings::Silently();
  foreign::CheckOtherFirewalls(host, record, silent);
}

}  // namespace nomad_bridge::attachment
