#include "plugin/attachment/renewed.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/list.h"
#include "base/text.h"
#include "firewall/address_policy.h"
#include "plugin/attachment/publish.h"
#include "plugin/link/container.h"
#include "plugin/rules/commit.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/stale_conntrack.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::attachment {
namespace {

using Renewal = std::pair<Cidr, Cidr>;  // from, to

bool IsAnothers(state::Host& host, const state::Record& record, const Ip& address) {
  const std::optional<nft::Element> element = firewall::FindAddress(host.nft, address);
  return element && element->owner() != state::HostVethName(record.id);
}

std::vector<Renewal> FindRenewals(state::Host& host, const state::Record& record) {
  const auto inside = link::FindInside(record.netns_path, record.id.ifname);
  std::vector<Renewal> renewals;
  if (!inside || inside->netns != record.netns) {
    return renewals;
  }
  for (const Cidr& recorded : record.ipam.addresses) {
    const auto is_its = [&](const Cidr& other) {
      return other.prefix_length == recorded.prefix_length &&
             other.Network() == recorded.Network() && !Contains(record.ipam.addresses, other) &&
             !Contains(record.link.gateways, other) && !IsAnothers(host, record, other.address);
    };
    const auto found = std::ranges::find_if(inside->addresses, is_its);
    if (found != inside->addresses.end() && !Contains(inside->addresses, recorded)) {
      renewals.emplace_back(recorded, *found);
    }
  }
  return renewals;
}

state::Record With(state::Record record, const std::vector<Renewal>& renewals) {
  for (const auto& [from, to] : renewals) {
    std::ranges::replace(record.ipam.addresses, from, to);
    for (portmap::DnatEntry& port : record.rules.ports) {
      port.container_ip = port.container_ip == from.address ? to.address : port.container_ip;
    }
  }
  return record;
}

void Follow(state::Host& host, const state::Record& record, const std::vector<Renewal>& renewals) {
  // With all its parts, and as it is by now.
  const std::optional<state::Record> whole = host.records.Find(record.id);
  if (!whole) {
    return;
  }
  const state::Record renewed = With(*whole, renewals);
  // Killed behind any of these, a reconcile of all removes what no record explains, and adds what
  // is missing.
  host.records.Write(renewed);
  rules::RemoveElements(host, record, renewed);
  Publish(host, renewed);
  rules::DeleteStaleConntrack(host, record, {cni::Part::kAddress, cni::Part::kPorts});
}

}  // namespace

bool IsRenewable(const state::Record& record) {
  return record.ipam.delegated && record.ipam.delegated->type != "static" &&
         record.IsLive(cni::Part::kLink) && record.IsLive(cni::Part::kAddress);
}

state::Record CheckRenewed(state::Host& host, const state::Record& record, Mismatches& mismatches) {
  const std::vector<Renewal> renewals =
      IsRenewable(record) ? FindRenewals(host, record) : std::vector<Renewal>();
  if (renewals.empty()) {
    return record;
  }
  std::string text = Joined(renewals, ", ", [](const Renewal& each) {
    return Format(
        "its address is {} now, and its record has {}", each.second.address, each.first.address);
  });
  mismatches.Add({Mismatch::Area::kPort, record.id.container_id, std::move(text)},
                 [&] { Follow(host, record, renewals); });
  return mismatches.is_repairing() ? With(record, renewals) : record;
}

}  // namespace nomad_bridge::attachment
