#include "plugin/attachment/segment.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file_lock.h"
#include "plugin/link/announcement.h"
#include "plugin/link/bridge.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/lan.h"
#include "plugin/link/uplink.h"
#include "plugin/rules/bridge_netfilter.h"
#include "plugin/rules/converge.h"
#include "plugin/rules/localhost.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::attachment {
namespace {

// Makes every host veth whose record names the new `bridge` a port of it; returns the records of
// those that were none. Without the attachments' locks: a DEL may remove a link at any moment.
std::vector<state::Record> CheckPortsOfNewBridge(state::Host& host,
                                                 const rtnl::Link& bridge,
                                                 Mismatches& mismatches) {
  std::set<std::string> ports;
  for (rtnl::Link& port : host.net.Ports(bridge.index)) {
    ports.insert(std::move(port.name));
  }
  std::vector<state::Record> moved;
  for (const AttachmentId& id : host.records.List("")) {
    const std::optional<state::Record> record =
        ports.contains(state::HostVethName(id)) ? std::nullopt : host.records.Find(id);
    if (!record || !record->IsLive(cni::Part::kLink) || record->link.bridge != bridge.name) {
      continue;
    }
    const auto find_veth = [&] { return link::FindHostVeth(host.net, id, link::Recorded::kYes); };
    const std::optional<rtnl::Link> veth = find_veth();
    if (!veth) {
      continue;
    }
    try {
      link::CheckHostVeth(host, *record, veth, bridge, mismatches);
      moved.push_back(record->OnlyLive());
    } catch (const Error&) {
      if (find_veth()) {
        throw;
      }
    }
  }
  return moved;
}

// In the records of `bridge`.
void NoteAdopted(state::Host& host, const std::string& bridge, bool is_adopted) {
  host.records.Update([&](state::Record& record) {
    return record.link.bridge == bridge &&
           std::exchange(record.link.adopted, is_adopted) != is_adopted;
  });
}

// Its cost grows with the attachments, and comes once per bridge that was made anew.
void CheckNewBridge(state::Host& host, const rtnl::Link& bridge, Mismatches& mismatches) {
  const state::Checkpoint::Bridge known = link::KnownBridge(host, bridge.name);
  if (link::IsAbout(known, bridge)) {
    return;
  }
  const std::vector<state::Record> moved = CheckPortsOfNewBridge(host, bridge, mismatches);
  if (!moved.empty()) {
    // It has not been set up for localhost, either. That is safe only where the rules are.
    rules::CheckRuleset(host, {}, mismatches);
  }
  for (const state::Record& record : moved) {
    Mismatches implied(Mode::kRepair);
    rules::CheckLocalhost(host, record, implied);
  }
  // Looked at under the lock: what others note meanwhile stays.
  rules::UpdateCheckpoint(host, [&](state::Checkpoint& now) {
    state::Checkpoint::Bridge& noted = now.bridges[bridge.name];
    noted.index = bridge.index;
    noted.made = link::IsMadeByUs(bridge);
    noted = link::Observe(host, bridge, noted, link::FindUplinks(host.net, bridge));
  });
}

std::string WhatHasChanged(const std::set<std::string>& uplinks,
                           bool is_adopted,
                           const std::set<bool>& recorded) {
  const bool do_records_differ = recorded.contains(!is_adopted);
  if (!uplinks.empty()) {
    return Format("has an uplink, '{}', {}",
                  *uplinks.begin(),
                  do_records_differ ? "and its records say it has none" : "which is not noted");
  }
  if (!do_records_differ) {
    return "has lost its uplink";
  }
  return is_adopted ? "was made by somebody else, and its records say by nomad-bridge"
                    : "has no uplink, and its records say it has one";
}

// One of ours that has another MAC now, so that ADDs have taken it for somebody else's meanwhile.
void AddLostMac(state::Host& host, const rtnl::Link& bridge, Mismatches& mismatches) {
  mismatches.Add({Mismatch::Area::kBridge,
                  bridge.name,
                  Format("the MAC of bridge '{}' was changed", bridge.name)},
                 [&] {
                   // Running allocations know their gateway by the other one.
                   link::SetMacAndAnnounce(
                       host.net, bridge, Mac::ForName(bridge.name), host.net.Addresses(bridge));
                   NoteAdopted(host, bridge.name, false);
                 });
}

}  // namespace

std::string SegmentKey(const state::Record& record) {
  std::string key = Format("{} {} {} {} {}",
                           record.link.bridge,
                           record.link.gateway_ifname,
                           record.IsLive(cni::Part::kLink) ? "link" : "",
                           record.link.port.vlans ? "vlan" : "",
                           record.IsLive(cni::Part::kPorts) && record.rules.snat ? "snat" : "");
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
    CheckNewBridge(host, *bridge, mismatches);
  }
  return bridge;
}

void CheckNewSegment(state::Host& host, const state::Record& record, Mismatches& mismatches) {
  Mismatches found(mismatches.mode());
  const std::optional<rtnl::Link> bridge = CheckSegment(host, record, found);
  if (mismatches.is_repairing()) {
    const auto left = std::ranges::find_if(found.left(), [&](const Mismatch& mismatch) {
      return mismatch.area == Mismatch::Area::kBridge && mismatch.owner == record.link.bridge;
    });
    if (left != found.left().end()) {
      throw Error(Code::kConflict,
                  left->text,
                  left->fix.command.empty() ? left->fix.advice : left->fix.Line());
    }
  }
  for (const std::string& ifname : {record.link.bridge, record.link.gateway_ifname}) {
    if (!found.empty() && !link::IsInUse(host, ifname)) {
      found.EraseOf(ifname);
    }
  }
  mismatches.AddAll(std::move(found));
  if (bridge) {
    rules::RequireBridgeNetfilter(host, *bridge, record);
  }
}

void CheckAdopted(state::Host& host,
                  const std::string& bridge_name,
                  const std::set<bool>& recorded,
                  Mismatches& mismatches) {
  const std::optional<rtnl::Link> bridge = host.net.FindLink(bridge_name);
  if (!bridge) {
    return;
  }
  const std::set<std::string> uplinks = link::FindUplinks(host.net, *bridge);
  if (uplinks.empty() && link::HasLostMac(host, *bridge)) {
    return AddLostMac(host, *bridge, mismatches);
  }
  const bool is_made_by_us = link::IsMadeByUs(*bridge);
  const bool is_adopted = !uplinks.empty() || !is_made_by_us;
  const state::Checkpoint::Bridge known = link::KnownBridge(host, bridge->name);
  const state::Checkpoint::Bridge seen = link::Observe(host, *bridge, known, uplinks);
  const auto note = [&] {
    rules::UpdateCheckpoint(host, [&](state::Checkpoint& now) {
      state::Checkpoint::Bridge& noted = now.bridges[bridge->name];
      noted = link::Observe(host, *bridge, noted, uplinks);
    });
  };
  // An ADD goes by whether uplinks of a bridge of ours are known; of one not known it asks.
  const bool is_known =
      !is_made_by_us || !link::IsAbout(known, *bridge) || known.uplinks.empty() == uplinks.empty();
  if (is_known && !recorded.contains(!is_adopted)) {
    if (mismatches.is_repairing() && seen != known) {
      note();
    }
    return;
  }
  Mismatch changed{
      Mismatch::Area::kBridge,
      bridge->name,
      Format("bridge '{}' {}", bridge->name, WhatHasChanged(uplinks, is_adopted, recorded))};
  if (is_made_by_us && !uplinks.empty()) {
    changed.part = kStrayUplink;
  }
  mismatches.Add(std::move(changed), [&] {
    note();
    NoteAdopted(host, bridge->name, is_adopted);
  });
}

}  // namespace nomad_bridge::attachment
