#include "plugin/rules/desired.h"

#include <algorithm>
#include <tuple>

#include "base/list.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/policy_tables.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::rules {

DesiredState::DesiredState(state::Host& host,
                           std::set<std::string> kept_owners,
                           const link::ListedVeths* listed)
    : host_(host),
      kept_owners_(std::move(kept_owners)),
      elements_{.may_stay = [this](const nft::Element& element) { return MayStay(element); }} {
  // Older attachments first: a port that a container publishes in two networks belongs to the
  // first.
  std::vector<state::Record> records = host.records.All();
  std::ranges::sort(records, {}, [](const state::Record& record) {
    return std::tie(record.created, record.id.ifname);
  });
  for (state::Record& record : records) {
    const std::optional<rtnl::Link> veth =
        listed != nullptr ? listed->Find(record.id, link::Recorded::kYes) : std::nullopt;
    const bool is_alive = link::IsAlive(host, record, veth);
    Add(WithPolicies(std::move(record), host.policy.Program()), is_alive);
  }
  Append(elements_.elements, ListElements(host.policy.Program()));
}

void DesiredState::Add(state::Record record, bool is_alive) {
  const std::string owner = state::HostVethName(record.id);
  // A stale attachment keeps its elements until Collect() removes it. Without its lock, nobody can
  // tell it from an attachment that is just being added.
  MayRemain& may_remain = recorded_[owner];
  may_remain.all = !is_alive;
  for (const auto& [part, phase] : record.parts) {
    if (record.Has(part) && phase != state::Phase::kLive) {
      may_remain.parts.insert(part);
    }
  }
  std::vector<nft::Element> elements = ElementsOf(record);
  NoteShared(elements);
  const bool is_settled = !may_remain.all && may_remain.parts.empty();
  if (is_alive) {
    for (const Cidr& cidr : record.ipam.addresses) {
      address_owners_.try_emplace(cidr.address, owner);
    }
    live_.push_back(is_settled ? std::move(record) : record.OnlyLive());
    if (!is_settled) {
      Append(elements_.elements, ElementsOf(live_.back()));
    }
  }
  Append(is_settled ? elements_.elements : elements_.instead_if_kept, std::move(elements));
}

void DesiredState::NoteShared(const std::vector<nft::Element>& elements) {
  for (const nft::Element& element : elements) {
    if (element.comment.empty() && !Contains(shared_, element)) {
      shared_.push_back(element);
    }
  }
}

bool DesiredState::HasOtherOwnersAddress(const nft::Element& element) const {
  const std::optional<Ip> address = AddressOf(element);
  const auto found = address ? address_owners_.find(*address) : address_owners_.end();
  return found != address_owners_.end() && found->second != element.owner();
}

// Returns whether a container uses the element's address or interface. This finds a container whose
// record was lost and whose link another plugin made: no link has the owner's name then.
bool DesiredState::IsUsedByContainer(const nft::Element& element) const {
  const std::optional<Ip> address = AddressOf(element);
  const std::optional<std::string> ifname = FindIfname(element);
  return (address && held_.Contains(*address)) || (ifname && host_.net.FindLink(*ifname));
}

// Returns whether an attachment needs the shared element, even if the attachment's record was lost.
bool DesiredState::IsShared(const nft::Element& element) const {
  const std::optional<std::string> ifname = FindIfname(element);
  if (!ifname || Contains(shared_, element)) {
    return true;
  }
  std::set<std::string> recorded;
  for (const auto& [owner, may_remain] : recorded_) {
    recorded.insert(owner);
  }
  return link::HasUnrecordedPort(host_.net, *ifname, recorded) ||
         HasUnrecordedContainerBehind(*ifname);
}

// Returns whether a container is behind `ifname` whose record was lost, and which another plugin
// attached.
bool DesiredState::HasUnrecordedContainerBehind(const std::string& ifname) const {
  const std::optional<rtnl::Link> link = host_.net.FindLink(ifname);
  if (!link) {
    return false;
  }
  std::set<Ip> addresses;
  for (const nft::Element& element : firewall::OwnedElements(host_.nft)) {
    const std::optional<Ip> address = AddressOf(element);
    if (address && !recorded_.contains(std::string(element.owner())) && MayStay(element)) {
      addresses.insert(*address);
    }
  }
  return std::ranges::any_of(addresses, [&](const Ip& address) {
    return host_.net.LookUpRoute({.destination = address}).link == link->index;
  });
}

// If a part is being made or removed, the command at work removes its elements, or if that command
// was killed, the next command does. Elements of a stale attachment stay until Collect() removes
// it.
bool DesiredState::MayStay(const nft::Element& element) const {
  if (element.comment.empty()) {
    return !IsInList(element) && IsShared(element);
  }
  const std::string owner(element.owner());
  const auto recorded = recorded_.find(owner);
  if (recorded == recorded_.end()) {
    return !HasOtherOwnersAddress(element) &&
           (kept_owners_.contains(owner) || host_.net.FindLink(owner) ||
            IsUsedByContainer(element));
  }
  const MayRemain& may_remain = recorded->second;
  return may_remain.all || std::ranges::any_of(PartsOf(element), [&](cni::Part part) {
           return may_remain.parts.contains(part);
         });
}

}  // namespace nomad_bridge::rules
