#include "plugin/attachment/segment.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "plugin/link/bridge.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/bridge_netfilter.h"
#include "plugin/rules/converge.h"
#include "plugin/rules/localhost.h"

namespace nomad_bridge::attachment {
namespace {

// Plugs every host veth whose record names `bridge` into it. Returns the live parts of the
// attachments whose veth was not a port of it.
std::vector<state::Record> CheckPorts(state::Host& host,
                                      const rtnl::Link& bridge,
                                      Mismatches& mismatches) {
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
    // Kept apart from `mismatches`: if a DEL removes the link meanwhile, the mismatch of this port
    // cannot be repaired. The CHECK of another attachment must not fail because of it.
    Mismatches of_port(mismatches.mode());
    try {
      link::CheckHostVeth(host, record, veth, bridge, of_port);
      mismatches.AddAll(std::move(of_port));
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

// Plugs the ports back into a bridge that was created again, by us or by its operator. Done once
// per bridge, because it reads all records.
void PlugInPorts(state::Host& host, const rtnl::Link& bridge, Mismatches& mismatches) {
  const std::vector<state::Record> moved = CheckPorts(host, bridge, mismatches);
  if (!moved.empty()) {
    // Rules before route_localnet, which is safe only while they are in force.
    rules::CheckRuleset(host, {}, mismatches);
  }
  for (const state::Record& record : moved) {
    rules::CheckLocalhost(host, record, mismatches);
  }
}

void CheckNewBridge(state::Host& host,
                    const rtnl::Link& bridge,
                    const state::Record& record,
                    Mismatches& mismatches) {
  state::Checkpoint known = host.checkpoint.Find().value_or(state::Checkpoint());
  const std::string& network = record.id.network;
  const bool is_new = known.bridges[bridge.name] != bridge.index;
  // Another IPAM plugin names the gateways only after the bridge is made.
  const bool has_gateways = !record.link.gateways.empty();
  if (!is_new && (!has_gateways || known.gateways[network] == record.link.gateways)) {
    return;
  }
  if (is_new) {
    PlugInPorts(host, bridge, mismatches);
  }
  // Last: if this process is killed before, the next command does all of it again.
  rules::UpdateCheckpoint(host, [&](state::Checkpoint& now) {
    now.bridges[bridge.name] = bridge.index;
    if (has_gateways) {
      now.gateways[network] = record.link.gateways;
    }
  });
}

}  // namespace

std::string SegmentKey(const state::Record& record) {
  std::string key = Format("{} {} {} {} {}",
                           record.link.bridge,
                           record.link.gateway_ifname,
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
                                       Mismatches& mismatches) {
  if (!record.IsLive(cni::Part::kLink)) {
    return std::nullopt;
  }
  std::optional<rtnl::Link> bridge = link::CheckBridge(host, record, mismatches);
  if (bridge) {
    rules::CheckBridgeNetfilter(host, *bridge, record, mismatches);
  }
  if (bridge && mismatches.is_repairing()) {
    // Only once the bridge has its addresses: containers send to the gateway as soon as their ports
    // are plugged in.
    CheckNewBridge(host, *bridge, record, mismatches);
  }
  return bridge;
}

void EnsureSegment(state::Host& host, const state::Record& record) {
  Mismatches unreported(Mode::kRepair);
  const std::optional<rtnl::Link> bridge = CheckSegment(host, record, unreported);
  const auto left = std::ranges::find_if(unreported.left(), [&](const Mismatch& mismatch) {
    return mismatch.area == Mismatch::Area::kBridge && mismatch.owner == record.link.bridge;
  });
  if (left != unreported.left().end()) {
    const Fix& fix = left->fix;
    throw Error(Code::kConflict, left->text, fix.command.empty() ? fix.advice : fix.Line());
  }
  if (bridge) {
    rules::RequireBridgeNetfilter(host, *bridge, record);
  }
}

}  // namespace nomad_bridge::attachment
