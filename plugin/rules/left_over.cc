#include "plugin/rules/left_over.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/list.h"
#include "base/memo.h"
#include "base/text.h"
#include "firewall/change.h"
#include "firewall/table.h"
#include "plugin/link/host_veth.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/tables.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::rules {
namespace {

// Returns the parts of `record` that are not being removed. The DEL that removes the others may
// have been killed, and its own elements may still be in force: they need no interface.
state::Record WithoutLeaving(state::Record record) {
  std::erase_if(record.parts,
                [](const auto& part) { return part.second == state::Phase::kLeaving; });
  return record;
}

// Decides which elements nothing explains.
class LeftOver {
 public:
  LeftOver(state::Host& host, const std::set<AttachmentId>& valid)
      : host_(host), valid_(state::HostVethNames(valid)), held_(host) {
    for (const AttachmentId& id : host.records.List("")) {
      const std::string owner = state::HostVethName(id);
      recorded_.insert(owner);
      const std::optional<state::Record> record = host.records.Find(id);
      if (record && record->IsAny(state::Phase::kLive)) {
        for (const Cidr& cidr : record->ipam.addresses) {
          address_owners_.try_emplace(cidr.address, owner);
        }
      }
    }
  }

  [[nodiscard]] bool Has(const nft::Element& element) {
    const std::string owner(element.owner());
    return !recorded_.contains(owner) &&
           (HasOthersAddress(element) || (!valid_.contains(owner) && !IsUsed(element)));
  }

 private:
  [[nodiscard]] bool HasOthersAddress(const nft::Element& element) const {
    const std::optional<Ip> address = AddressOf(element);
    const auto found = address ? address_owners_.find(*address) : address_owners_.end();
    return found != address_owners_.end() && found->second != element.owner();
  }

  // The owner is named after its host veth. If another plugin made the link, no link has that name:
  // then a container that has the address, or the interface itself, shows that it may live.
  [[nodiscard]] bool IsUsed(const nft::Element& element) {
    const std::optional<Ip> address = AddressOf(element);
    const std::optional<std::string> ifname = FindIfname(element);
    return HasLink(std::string(element.owner())) || (address && held_.Contains(*address)) ||
           (ifname && HasLink(*ifname));
  }

  [[nodiscard]] bool HasLink(const std::string& name) {
    return AskOnce(links_, name, [&] { return host_.net.FindLink(name).has_value(); });
  }

  state::Host& host_;
  std::set<std::string> valid_;
  std::set<std::string> recorded_;  // owners with a record
  std::map<Ip, std::string> address_owners_;
  link::HeldAddresses held_;
  std::map<std::string, bool> links_;  // whether a link has the name
};

// Returns all elements that nothing explains.
std::vector<nft::Element> FindLeftOver(state::Host& host, const std::set<AttachmentId>& valid) {
  std::vector<nft::Element> elements = firewall::AllElements(host.nft);
  std::vector<nft::Element> shared = elements;
  std::erase_if(elements, &firewall::IsShared);
  // Shared elements without an interface are of lists of prefixes, which belong to the policies.
  std::erase_if(shared, [](const nft::Element& element) {
    return !firewall::IsShared(element) || !FindIfname(element);
  });
  LeftOver left_over(host, valid);
  std::erase_if(elements, [&](const nft::Element& element) { return !left_over.Has(element); });
  Append(elements, WithoutNeeded(host, std::move(shared), AttachmentId()));
  return elements;
}

}  // namespace

std::vector<nft::Element> WithoutNeeded(state::Host& host,
                                        std::vector<nft::Element> elements,
                                        const AttachmentId& id) {
  const auto erase_needed_by = [&](const std::optional<state::Record>& other) {
    const std::vector<nft::Element> needed =
        other ? ElementsOf(WithoutLeaving(*other)) : std::vector<nft::Element>();
    std::erase_if(elements, [&](const nft::Element& element) { return Contains(needed, element); });
  };
  if (!elements.empty()) {
    // Looks in the own network first: usually a record there needs the same elements, and then no
    // other record is read.
    erase_needed_by(host.records.FindNeighbour(id));
  }
  if (elements.empty()) {
    return elements;
  }
  std::set<std::string> recorded = {state::HostVethName(id)};
  for (const AttachmentId& other_id : host.records.List("")) {
    const std::optional<state::Record> other =
        other_id == id ? std::nullopt : host.records.Find(other_id);
    if (other) {
      recorded.insert(state::HostVethName(other_id));
    }
    erase_needed_by(other);
  }
  std::map<std::string, bool> has_unrecorded;  // by interface, which several elements name
  std::erase_if(elements, [&](const nft::Element& element) {
    const std::string ifname = FindIfname(element).value();
    return AskOnce(has_unrecorded, ifname, [&] {
      return link::HasUnrecordedPort(host.net, ifname, recorded);
    });
  });
  return elements;
}

void CheckLeftOver(state::Host& host, const std::set<AttachmentId>& valid, Findings& findings) {
  if (!host.nft.FindTable(firewall::TableId())) {
    return;  // no lock file is created for nothing
  }
  // From the search to the removal: an ADD may bring back an owner.
  const FileLock one_at_a_time = host.records.LockRules();
  const std::vector<nft::Element> elements = FindLeftOver(host, valid);
  FindingList found;
  for (const nft::Element& element : elements) {
    const firewall::OwnSet* const own = FindRow(element);
    const std::string name = firewall::Name(own == nullptr ? nullptr : &own->set, element);
    found.push_back({.area = Finding::Area::kLeftOver,
                     .owner = std::string(element.owner()),
                     .text = Cat(name, " has no owner"),
                     // With data it leads packets to an address that nobody has.
                     .severity = element.data.empty() ? Finding::Severity::kWarning
                                                      : Finding::Severity::kFault});
  }
  if (findings.is_repairing()) {
    firewall::EnsureElementsGone(host.nft, elements);
  }
  findings.AddAll(std::move(found));
}

}  // namespace nomad_bridge::rules
