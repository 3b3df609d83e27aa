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
#include "plugin/rules/port_side_effects.h"
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

bool IsForwardedFor(const state::Record& record) {
  return HasForwardHook(record) && record.IsLive(cni::Part::kForward);
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
  const auto other = std::ranges::find_if(records, IsForwardedFor);
  return other != records.end() ? other->rules.forward_hook.accept_mark_bit
                                : record.rules.forward_hook.accept_mark_bit;
}

// The mark is one bit for the whole node, so networks have to agree on it.
void RequireSameMarkBit(const state::Record& record, link::LiveAttachments& others) {
  if (!HasForwardHook(record)) {
    return;
  }
  for (const state::Record& other : others.records()) {
    if (IsForwardedFor(other) &&
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
    const state::Record live = record.OnlyLive();
    desired.push_back({.forward_hook = live.Has(cni::Part::kForward)
                                           ? live.rules.forward_hook
                                           : firewall::ForwardHook{.admin_chain = {}},
                       .elements = ElementsOf(live)});
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

// Adds where `record` publishes ports.
void AddPublishedOn(std::vector<std::optional<Ip>>& places, const state::Record& record) {
  for (const portmap::DnatEntry& port : record.rules.ports) {
    if (!Contains(places, port.host_ip)) {
      places.push_back(port.host_ip);
    }
  }
}

void FinishRepair(state::Host& host, const firewall::Outcome& outcome, link::LiveAttachments& all) {
  for (const std::string& mismatch : outcome.repaired) {
    LogLine("repaired {}", mismatch);
  }
  if (!outcome.repaired.empty()) {
    ForgetUntranslatedFlows(host, all.records());
  }
}

// Restores what live attachments lack, in a batch of its own: a change that is refused after it has
// healed the others all the same. Returns the checkpoint after it.
state::Checkpoint Converge(state::Host& host,
                           const nft::Table& table,
                           int mark_bit,
                           link::LiveAttachments& all) {
  const firewall::Outcome outcome =
      firewall::Apply(host.nft, table, {.forward_hook = {.admin_chain = {}}}, std::nullopt, [&] {
        return DesiredStatesOf(all.records());
      });
  FinishRepair(host, outcome, all);
  state::Checkpoint checkpoint{.generation = outcome.generation.value(),
                               .accept_mark_bit = mark_bit};
  for (const state::Record& record : all.records()) {
    AddPublishedOn(checkpoint.published_on, record);
  }
  SaveCheckpoint(host, checkpoint, outcome.generation);
  return checkpoint;
}

}  // namespace

std::optional<state::Checkpoint> FindCurrentCheckpoint(state::Host& host) {
  std::optional<state::Checkpoint> checkpoint = host.checkpoint.Find();
  return checkpoint && checkpoint->generation == host.nft.Generation() ? checkpoint : std::nullopt;
}

bool HasForwardHook(const state::Record& record) {
  return !record.rules.forward_hook.admin_chain.empty();
}

Committed Commit(state::Host& host, const state::Record& record, firewall::Change change) {
  const RangeLock one_at_a_time = host.records.LockRules();
  // Read under the rules' lock, once: a record becomes live, or ceases to be, under it.
  link::LiveAttachments all(host, {});
  std::optional<state::Checkpoint> checkpoint = FindCurrentCheckpoint(host);
  const int mark_bit = MarkBitFor(record, checkpoint, all);
  const nft::Table table = NodeTable(mark_bit);
  if (!checkpoint || checkpoint->accept_mark_bit != mark_bit) {
    RequireSameMarkBit(record, all);
    checkpoint = Converge(host, table, mark_bit, all);
  }
  Committed committed{.checkpoint = *checkpoint};
  std::vector<std::string>& shared = committed.checkpoint.shared;
  const std::string hash = HashOfShared(record, change.add);
  change.shared_in_force = Contains(shared, hash);
  const StaleShared stale =
      change.shared_in_force ? StaleShared{} : FindStaleShared(host, record, all);
  change.remove_shared = stale.elements;

  const auto list_desired = [&] { return DesiredStatesOf(all.records()); };
  const auto settle = [&](const firewall::Conflict& conflict) {
    if (std::optional<StaleOwner> owner = Settle(host, record, conflict, change)) {
      committed.stale_owners.push_back(*std::move(owner));
    }
  };
  // Only of what is new: a repair takes no port away.
  while (const std::optional<firewall::Conflict> overlap =
             record.IsAny(state::Phase::kMaking)
                 ? FindOverlap(host, change, checkpoint->published_on)
                 : std::nullopt) {
    settle(*overlap);
  }
  firewall::Outcome outcome;
  while ((outcome = firewall::Apply(host.nft, table, change, checkpoint->generation, list_desired))
             .conflict) {
    settle(*outcome.conflict);
  }
  FinishRepair(host, outcome, all);
  if (record.IsAny(state::Phase::kMaking)) {
    host.records.Write(record.Finished());
  }
  shared = SharedAfter(shared, hash, record, stale);
  AddPublishedOn(committed.checkpoint.published_on, record);
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

std::vector<nft::Element> FindRulesOf(state::Host& host, const AttachmentId& id) {
  std::vector<nft::Element> elements = firewall::OwnedElements(host.nft);
  const std::string owner = state::HostVethName(id);
  std::erase_if(elements, [&](const nft::Element& element) { return element.owner() != owner; });
  return elements;
}

std::vector<std::string> DiffRules(state::Host& host, const state::Record& record) {
  const std::vector<nft::Element> elements = ElementsOf(record.OnlyLive());
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
