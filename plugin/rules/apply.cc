#include "plugin/rules/apply.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "firewall/table.h"
#include "plugin/foreign/other_firewalls.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/shared.h"
#include "plugin/state/kernel_names.h"
#include "portmap/rules.h"

namespace nomad_bridge::rules {
namespace {

nft::Table NodeTable(int accept_mark_bit) {
  nft::Table table = firewall::Describe(accept_mark_bit);
  portmap::Describe(table);
  return table;
}

std::optional<std::uint32_t> Generation(const std::optional<state::Checkpoint>& checkpoint) {
  return checkpoint ? std::optional(checkpoint->generation) : std::nullopt;
}

// The bit of the node's rules: that of `record` if it is forwarded for, else the one in use.
int MarkBitFor(const state::Record& record,
               const std::optional<state::Checkpoint>& checkpoint,
               link::LiveAttachments& others) {
  if (HasForwardHook(record)) {
    return record.rules.forward_hook.accept_mark_bit;
  }
  if (checkpoint) {
    return checkpoint->accept_mark_bit;
  }
  const std::vector<state::Record>& records = others.records();
  const auto other = std::ranges::find_if(records, HasForwardHook);
  return other != records.end() ? other->rules.forward_hook.accept_mark_bit
                                : record.rules.forward_hook.accept_mark_bit;
}

// The mark is one bit for the whole node, so networks have to agree on it.
void RequireSameMarkBit(const state::Record& record, link::LiveAttachments& others) {
  if (!HasForwardHook(record)) {
    return;
  }
  for (const state::Record& other : others.records()) {
    if (HasForwardHook(other) &&
        other.rules.forward_hook.accept_mark_bit != record.rules.forward_hook.accept_mark_bit &&
        other.id.network != record.id.network) {
      throw Error(
          Code::kConflict,
          Format("acceptMarkBit is {} in network '{}', but {} in network '{}'",
                 record.rules.forward_hook.accept_mark_bit,
                 record.id.network,
                 other.rules.forward_hook.accept_mark_bit,
                 other.id.network),
          "the bit is one for the whole node: networks with live allocations must agree on it");
    }
  }
}

std::string DescribeConflict(const firewall::Conflict& conflict) {
  const std::string port = portmap::DescribeKey(conflict.wanted);
  if (!port.empty()) {
    return Cat("host port ", port);
  }
  return conflict.wanted.set == firewall::kBridges ? "its interface on the host"
                                                   : Cat("address ", Ip(conflict.wanted.key));
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

// The owner of the element in the way if it is stale; throws if it is alive. nullopt: stale, but
// without a record.
std::optional<StaleOwner> RequireStale(state::Host& host, const firewall::Conflict& conflict) {
  const std::string owner_key(conflict.present.owner());
  std::optional<state::Record> owner = host.records.FindOwner(owner_key);
  if (!owner) {
    if (owner_key.empty() || host.net.FindLink(owner_key)) {
      ThrowTaken(conflict, owner);
    }
    return std::nullopt;
  }
  std::optional<RangeLock> lock = host.records.TryLock(owner->id);
  if (!lock || link::IsAlive(host, *owner)) {
    ThrowTaken(conflict, owner);
  }
  return StaleOwner{*std::move(lock), *std::move(owner)};
}

bool Replaces(const nft::Element& added, const nft::Element& element) {
  return added.set == element.set && added.key == element.key;
}

// A runtime publishes a container's ports in every network the container is in (podman does). A port
// that another attachment of the same container holds stays with that, until it is transferred when
// that one goes. Returns whether this is such a conflict.
bool LeaveToSibling(state::Host& host,
                    const state::Record& record,
                    const firewall::Conflict& conflict,
                    firewall::Change& change) {
  const std::optional<state::Record> owner =
      host.records.FindOwner(std::string(conflict.present.owner()));
  const bool is_port = !portmap::DescribeKey(conflict.wanted).empty();
  if (!is_port || !owner || !IsSameContainer(owner->id, record) || !link::IsAlive(host, *owner)) {
    return false;
  }
  std::erase_if(change.add,
                [&](const nft::Element& added) { return Replaces(added, conflict.wanted); });
  LogLine("{} stays with the same container in network '{}'",
          DescribeConflict(conflict),
          owner->id.network);
  return true;
}

// Lets `change` replace the element in the way, and remove all else of its owner, in the same batch.
std::optional<StaleOwner> TakeOver(state::Host& host,
                                   const firewall::Conflict& conflict,
                                   firewall::Change& change) {
  std::optional<StaleOwner> stale = RequireStale(host, conflict);
  change.stale_owners.emplace_back(conflict.present.owner());
  if (stale) {
    for (nft::Element& element : ElementsOf(stale->record)) {
      const bool is_replaced = std::ranges::any_of(
          change.add, [&](const nft::Element& added) { return Replaces(added, element); });
      if (!is_replaced && !element.comment.empty()) {
        change.remove_owned.push_back(std::move(element));
      }
    }
  }
  return stale;
}

// Checkpoint::shared after a commit of what `hash` stands for, which removed `stale`.
std::vector<std::string> SharedAfter(std::vector<std::string> shared,
                                     const std::string& hash,
                                     const state::Record& record,
                                     const StaleShared& stale) {
  if (!stale.elements.empty()) {
    shared.clear();  // any of the others may have needed what was removed
  }
  std::erase_if(shared, [&](const std::string& known) { return IsOfAnotherPolicy(known, record); });
  if (!stale.is_kept && !Contains(shared, hash)) {
    shared.push_back(hash);
  }
  return shared;
}

std::vector<firewall::DesiredState> DesiredStatesOf(const std::vector<state::Record>& records) {
  std::vector<firewall::DesiredState> desired;
  desired.reserve(records.size());
  for (const state::Record& record : records) {
    desired.push_back({.forward_hook = record.rules.forward_hook, .elements = ElementsOf(record)});
  }
  return desired;
}

// Failing is no reason to fail the command, least of all a DEL: the next command compares instead.
void SaveCheckpoint(state::Host& host,
                    state::Checkpoint checkpoint,
                    std::optional<std::uint32_t> generation) {
  if (!generation) {
    return;
  }
  checkpoint.generation = *generation;
  try {
    host.checkpoint.Write(checkpoint);
  } catch (const Error& error) {
    LogLine("{}, ignoring", error.what());
  }
}

}  // namespace

std::optional<state::Checkpoint> FindCurrentCheckpoint(state::Host& host) {
  std::optional<state::Checkpoint> checkpoint = host.checkpoint.Find();
  return checkpoint && checkpoint->generation == host.nft.Generation() ? checkpoint : std::nullopt;
}

bool HasForwardHook(const state::Record& record) {
  return !record.rules.forward_hook.admin_chain.empty();
}

Committed Commit(state::Host& host,
                 const state::Record& record,
                 firewall::Change change,
                 const AttachmentId& except) {
  const RangeLock one_at_a_time = host.records.LockRules();
  // Read under the rules' lock, once: an attachment that commits its rules before us has its record by
  // then, and nobody commits or removes any until we are done.
  link::LiveAttachments others(host, except);
  std::optional<state::Checkpoint> checkpoint = FindCurrentCheckpoint(host);
  const int mark_bit = MarkBitFor(record, checkpoint, others);
  if (!checkpoint || checkpoint->accept_mark_bit != mark_bit) {
    RequireSameMarkBit(record, others);
    checkpoint.reset();
  }
  Committed committed{.checkpoint = checkpoint.value_or(state::Checkpoint{})};
  std::vector<std::string>& shared = committed.checkpoint.shared;
  const std::string hash = HashOfShared(record, change.add);
  change.shared_in_force = Contains(shared, hash);
  const StaleShared stale =
      change.shared_in_force ? StaleShared{} : FindStaleShared(host, record, others);
  change.remove_shared = stale.elements;

  const nft::Table table = NodeTable(mark_bit);
  const auto list_desired = [&] { return DesiredStatesOf(others.records()); };
  firewall::Outcome outcome;
  while ((outcome = firewall::Apply(host.nft, table, change, Generation(checkpoint), list_desired))
             .conflict) {
    if (LeaveToSibling(host, record, *outcome.conflict, change)) {
      continue;
    }
    if (std::optional<StaleOwner> owner = TakeOver(host, *outcome.conflict, change)) {
      committed.stale_owners.push_back(*std::move(owner));
    }
  }
  for (const std::string& mismatch : outcome.repaired) {
    LogLine("repaired {}", mismatch);
  }

  shared = SharedAfter(shared, hash, record, stale);
  committed.checkpoint.accept_mark_bit = mark_bit;
  SaveCheckpoint(host, committed.checkpoint, outcome.generation);
  return committed;
}

void UpdateForeignFirewalls(state::Host& host,
                            const state::Record& record,
                            state::Checkpoint checkpoint) {
  const bool is_known = Contains(checkpoint.opened_ifnames, record.link.gateway_ifname);
  if (HasForwardHook(record) && !is_known) {
    foreign::OpenOtherFirewalls(host, record);
    checkpoint.notes =
        foreign::NotesOnOtherFirewalls(host, record.rules.forward_hook.accept_mark_bit);
    const RangeLock one_at_a_time = host.records.LockRules();
    if (std::optional<state::Checkpoint> now = host.checkpoint.Find()) {
      // Another ADD may have added it meanwhile.
      std::erase(now->opened_ifnames, record.link.gateway_ifname);
      now->opened_ifnames.push_back(record.link.gateway_ifname);
      now->notes = checkpoint.notes;
      host.checkpoint.Write(*now);
    }
  }
  for (const std::string& note : checkpoint.notes) {
    LogLine("{}", note);
  }
}

void RemoveElements(state::Host& host, const std::vector<nft::Element>& elements) {
  if (elements.empty()) {
    return;
  }
  const RangeLock one_at_a_time = host.records.LockRules();
  const std::optional<state::Checkpoint> checkpoint = host.checkpoint.Find();
  const std::optional<std::uint32_t> generation =
      firewall::RemoveElements(host.nft, elements, Generation(checkpoint));
  SaveCheckpoint(host, checkpoint.value_or(state::Checkpoint{}), generation);
}

bool IsSameContainer(const AttachmentId& id, const state::Record& record) {
  return id.container_id == record.id.container_id && id != record.id;
}

std::vector<nft::Element> FindRulesOf(state::Host& host, const AttachmentId& id) {
  std::vector<nft::Element> elements = firewall::OwnedElements(host.nft);
  const std::string owner = state::HostVethName(id);
  std::erase_if(elements, [&](const nft::Element& element) { return element.owner() != owner; });
  return elements;
}

std::vector<std::string> DiffRules(state::Host& host, const state::Record& record) {
  const std::vector<nft::Element> elements = ElementsOf(record);
  if (elements.empty()) {
    return {};
  }
  link::LiveAttachments others(host, record.id);
  const int mark_bit = MarkBitFor(record, host.checkpoint.Find(), others);
  return firewall::Diff(host.nft,
                        NodeTable(mark_bit),
                        {.forward_hook = record.rules.forward_hook, .elements = elements});
}

}  // namespace nomad_bridge::rules
