#include "plugin/rules/desired.h"

#include <algorithm>

#include "base/list.h"
#include "plugin/link/host_veth.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/policy_tables.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::rules {

DesiredState::DesiredState(state::Host& host, std::set<std::string> kept_owners)
    : host_(host), kept_owners_(std::move(kept_owners)) {
  for (const AttachmentId& id : host.records.List("")) {
    std::optional<state::Record> record = host.records.Find(id);
    if (!record) {
      continue;
    }
    *record = Judged(*record, host.policy.Program());
    const std::string owner = state::HostVethName(id);
    std::vector<nft::Element> elements = ElementsOf(*record);
    // A stale one keeps its elements until it is collected: to know it from one that is just being
    // added takes its lock.
    if (link::IsAlive(host, *record)) {
      const state::Record& live = live_.emplace_back(record->OnlyLive());
      Append(live_elements_, live.parts == record->parts ? elements : ElementsOf(live));
      live_owners_.insert(owner);
      for (const Cidr& cidr : record->ipam.addresses) {
        address_owners_.try_emplace(cidr.address, owner);
      }
    }
    NoteShared(elements);
    Append(recorded_elements_, std::move(elements));
    by_owner_.emplace(owner, *std::move(record));
  }
}

void DesiredState::NoteShared(const std::vector<nft::Element>& elements) {
  for (const nft::Element& element : elements) {
    if (element.comment.empty() && !Contains(shared_, element)) {
      shared_.push_back(element);
    }
  }
}

firewall::DesiredElements DesiredState::Elements() const {
  firewall::DesiredElements desired{
      .elements = live_elements_,
      .instead = recorded_elements_,
      .is_explained = [this](const nft::Element& element) { return IsExplained(element); }};
  Append(desired.elements, ListElements(host_.policy.Program()));
  return desired;
}

bool DesiredState::IsAnothersAddress(const nft::Element& element) const {
  const std::optional<Ip> address = AddressOf(element);
  const auto found = address ? address_owners_.find(*address) : address_owners_.end();
  return found != address_owners_.end() && found->second != element.owner();
}

// Its record was lost, and another plugin made its link.
bool DesiredState::IsOfAContainer(const nft::Element& element) const {
  const std::optional<Ip> address = AddressOf(element);
  const std::optional<std::string> ifname = FindIfname(element);
  return (address && held_.Contains(*address)) || (ifname && host_.net.FindLink(*ifname));
}

// By attachments that have a record, or by one that has lost it.
bool DesiredState::IsShared(const nft::Element& element) const {
  const std::optional<std::string> ifname = FindIfname(element);
  if (!ifname || Contains(shared_, element)) {
    return true;
  }
  std::set<std::string> recorded;
  for (const auto& [owner, record] : by_owner_) {
    recorded.insert(owner);
  }
  return link::HasUnrecordedPort(host_.net, *ifname, recorded) || LeadsToUnrecorded(*ifname);
}

// To a container that another plugin attached, whose record was lost.
bool DesiredState::LeadsToUnrecorded(const std::string& ifname) const {
  const std::optional<rtnl::Link> link = host_.net.FindLink(ifname);
  if (!link) {
    return false;
  }
  std::set<Ip> addresses;
  for (const nft::Element& element : firewall::OwnedElements(host_.nft)) {
    const std::optional<Ip> address = AddressOf(element);
    if (address && !by_owner_.contains(std::string(element.owner())) && IsExplained(element)) {
      addresses.insert(*address);
    }
  }
  return std::ranges::any_of(addresses, [&](const Ip& address) {
    return host_.net.LookUpRoute({.destination = address}).link == link->index;
  });
}

// Elements of a part that is being made or removed belong to the command that does so, or to the
// next one that finds it was killed; those of a stale attachment go when it is reclaimed.
bool DesiredState::IsExplained(const nft::Element& element) const {
  if (element.comment.empty()) {
    return !IsInList(element) && IsShared(element);
  }
  const std::string owner(element.owner());
  const auto found = by_owner_.find(owner);
  if (found == by_owner_.end()) {
    return !IsAnothersAddress(element) &&
           (kept_owners_.contains(owner) || host_.net.FindLink(owner) || IsOfAContainer(element));
  }
  const state::Record& record = found->second;
  if (record.version > state::kRecordVersion) {
    return true;  // by what we cannot read
  }
  return !live_owners_.contains(owner) ||
         std::ranges::any_of(PartsOf(element), [&](cni::Part part) {
           return record.Has(part) && !record.IsLive(part);
         });
}

}  // namespace nomad_bridge::rules
