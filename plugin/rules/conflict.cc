#include "plugin/rules/conflict.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/memo.h"
#include "base/text.h"
#include "firewall/table.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/elements.h"
#include "portmap/rules.h"

namespace nomad_bridge::rules {
namespace {

// Returns whether `added` replaces `element`: a set holds each key once.
bool Replaces(const nft::Element& added, const nft::Element& element) {
  return added.set == element.set && added.key == element.key;
}

std::string DescribeConflict(const firewall::Conflict& conflict) {
  const std::string port = portmap::DescribeKey(conflict.wanted);
  if (!port.empty()) {
    return Replaces(conflict.wanted, conflict.present)
               ? Cat("host port ", port)
               : Format("host port {} (as {})", port, portmap::DescribeKey(conflict.present));
  }
  const std::optional<Ip> address = AddressOf(conflict.wanted);
  return address ? Cat("address ", *address) : "its interface on the host";
}

[[noreturn]] void ThrowTaken(const firewall::Conflict& conflict,
                             const std::optional<state::Record>& owner) {
  if (owner) {
    const std::vector<Cidr>& addresses = owner->ipam.addresses;
    throw cni::TakenBy(DescribeConflict(conflict),
                       owner->id,
                       owner->labels,
                       addresses.empty() ? std::nullopt : std::optional(addresses.front().address));
  }
  throw Error(Code::kConflict,
              Format("{} is taken by an attachment without a record", DescribeConflict(conflict)),
              Format("its element in table inet nomad-bridge has the comment: {}",
                     conflict.present.comment));
}

// For an element whose owner has no record: returns whether the owner's container still has the
// address that `element` leads to. If that container is gone, the address may belong to `record` or
// to a third attachment now.
bool IsHeld(state::Host& host, const state::Record& record, const nft::Element& element) {
  const std::optional<Ip> address = AddressOf(element);
  if (!address || Contains(AddressesOnly(record.ipam.addresses), *address)) {
    return false;
  }
  const std::optional<nft::Element> accepted = firewall::FindAddress(host.nft, *address);
  return (!accepted || accepted->owner() == element.owner()) &&
         link::HeldAddresses(host).Contains(*address);
}

// Returns the owner of the conflicting element if the owner is stale: it is gone, or a killed
// command left the part that has the element. Throws if the owner is alive. Returns nullopt if the
// owner is stale but has no record.
std::optional<StaleOwner> RequireStale(state::Host& host,
                                       const state::Record& record,
                                       const firewall::Conflict& conflict) {
  const std::string owner_key(conflict.present.owner());
  std::optional<state::Record> owner = host.records.FindOwner(owner_key);
  if (!owner) {
    // An element without a comment is from somebody else. If our attachment is live already, the
    // key was ours before, so our element replaces that one.
    if (owner_key.empty() && !record.IsAny(state::Phase::kMaking)) {
      return std::nullopt;
    }
    // The owner is named after its host veth. If another plugin made the link, no link has that
    // name.
    if (owner_key.empty() || host.net.FindLink(owner_key) ||
        IsHeld(host, record, conflict.present)) {
      ThrowTaken(conflict, owner);
    }
    return std::nullopt;
  }
  // Only tried: the command that holds the lock is alive, and may be waiting for the rules' lock,
  // which we hold.
  std::optional<FileLock> lock = host.records.TryLock(owner->id);
  // Read again under the lock: nobody changes the record any more.
  owner = lock ? host.records.Find(owner->id) : owner;
  const bool is_alive = owner && owner->IsAny(state::Phase::kLive) && link::IsAlive(host, *owner);
  const auto is_live = [&](cni::Part part) { return owner->IsLive(part); };
  if (!lock || (is_alive && std::ranges::any_of(PartsOf(conflict.present), is_live))) {
    ThrowTaken(conflict, owner);
  }
  if (!owner) {
    return std::nullopt;
  }
  cni::Parts parts = owner->AllParts();
  std::erase_if(parts, [&](cni::Part part) { return is_alive && owner->IsLive(part); });
  return StaleOwner{*std::move(lock), *std::move(owner), std::move(parts)};
}

// Leaves a port in conflict to a sibling that has it. Returns false if the conflict is another one.
bool LeaveToSibling(state::Host& host,
                    const state::Record& record,
                    const firewall::Conflict& conflict,
                    firewall::Change& change) {
  const std::optional<state::Record> sibling = FindSibling(host, record, conflict.present);
  if (!sibling) {
    return false;
  }
  std::erase_if(change.add,
                [&](const nft::Element& added) { return Replaces(added, conflict.wanted); });
  LogLine("{} stays with this container's attachment to network '{}'",
          DescribeConflict(conflict),
          sibling->id.network);
  return true;
}

// Lets `change` replace the conflicting element and remove all other elements of its owner in the
// same batch: a port that stayed would lead to the next owner of the address. The stale owner stays
// locked until the caller has removed it, so that nobody revives it meanwhile.
std::optional<StaleOwner> TakeOver(state::Host& host,
                                   const state::Record& record,
                                   const firewall::Conflict& conflict,
                                   firewall::Change& change) {
  std::optional<StaleOwner> stale = RequireStale(host, record, conflict);
  const std::string owner(conflict.present.owner());
  change.stale_owners.push_back(owner);  // the batch may replace its elements
  if (!Replaces(conflict.wanted, conflict.present)) {
    change.remove.push_back(conflict.present);  // an overlap: another key
  }
  for (nft::Element& element :
       stale ? ElementsOf(stale->record.Only(stale->parts)) : FindElementsOf(host.nft, owner)) {
    const bool is_replaced = std::ranges::any_of(
        change.add, [&](const nft::Element& added) { return Replaces(added, element); });
    if (!is_replaced && !element.comment.empty()) {
      change.remove.push_back(std::move(element));
    }
  }
  return stale;
}

// Returns the ports in the kernel that overlap with the port `wanted`; none if it is no port.
std::vector<nft::Element> FindOverlapping(state::Host& host,
                                          const nft::Element& wanted,
                                          std::map<std::string, std::vector<nft::Element>>& dumps) {
  std::vector<nft::Element> found;
  if (const std::optional<nft::Element> on_all = portmap::OnAllAddresses(wanted)) {
    if (std::optional<nft::Element> present = host.nft.FindElement(firewall::TableId(), *on_all)) {
      found.push_back(*std::move(present));
    }
  } else if (const std::optional<std::string> set = portmap::FindSetOfOneAddress(wanted)) {
    for (const nft::Element& present :
         AskOnce(dumps, *set, [&] { return host.nft.Elements(firewall::TableId(), *set); })) {
      if (portmap::OnAllAddresses(present)->key == wanted.key) {
        found.push_back(present);
      }
    }
  }
  return found;
}

}  // namespace

std::optional<StaleOwner> ResolveConflict(state::Host& host,
                                          const state::Record& record,
                                          const firewall::Conflict& conflict,
                                          firewall::Change& change) {
  return LeaveToSibling(host, record, conflict, change) ? std::nullopt
                                                        : TakeOver(host, record, conflict, change);
}

std::optional<firewall::Conflict> FindOverlap(state::Host& host, const firewall::Change& change) {
  std::map<std::string, std::vector<nft::Element>> dumps;  // by set
  for (const nft::Element& wanted : change.add) {
    for (nft::Element& present : FindOverlapping(host, wanted, dumps)) {
      if (present.owner() != wanted.owner() && !Contains(change.stale_owners, present.owner())) {
        return firewall::Conflict{.wanted = wanted, .present = std::move(present)};
      }
    }
  }
  return std::nullopt;
}

std::optional<state::Record> FindSibling(state::Host& host,
                                         const state::Record& record,
                                         const nft::Element& present) {
  std::optional<state::Record> owner;
  if (!portmap::DescribeKey(present).empty()) {
    owner = host.records.FindOwner(present.owner());
  }
  const bool is_sibling = owner && owner->id.container_id == record.id.container_id &&
                          owner->id != record.id && owner->IsLive(cni::Part::kPorts) &&
                          link::IsAlive(host, *owner);
  return is_sibling ? std::move(owner) : std::nullopt;
}

}  // namespace nomad_bridge::rules
