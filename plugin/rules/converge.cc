#include "plugin/rules/converge.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "firewall/ruleset.h"
#include "firewall/table.h"
#include "plugin/rules/desired.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/forward_hooks.h"
#include "plugin/rules/port_side_effects.h"
#include "plugin/rules/tables.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::rules {
namespace {

void FinishRepair(state::Host& host,
                  const std::vector<std::string>& repaired,
                  LazyDesiredState& desired) {
  for (const std::string& mismatch : repaired) {
    LogLine("repaired {}", mismatch);
  }
  if (!repaired.empty()) {
    ForgetUntranslatedFlows(host, desired->records());
  }
}

firewall::Restored RestoreAll(state::Host& host,
                              const firewall::Goal& goal,
                              const DesiredState& desired,
                              state::Checkpoint& checkpoint) {
  checkpoint.published_on.clear();
  for (const state::Record& record : desired.records()) {
    NotePublished(record, checkpoint);
  }
  return firewall::RestoreAll(host.nft, goal, desired.Elements());
}

// Of all live attachments; nullopt if there has been none yet.
std::optional<firewall::Goal> FindWholeGoal(state::Host& host,
                                            const state::Checkpoint& checkpoint,
                                            LazyDesiredState& desired) {
  if (desired->records().empty() && !host.nft.FindTable(firewall::TableId())) {
    return std::nullopt;
  }
  const int mark_bit = MarkBitInUse(checkpoint, desired);
  const bool has_port_filter =
      checkpoint.has_port_filter || std::ranges::any_of(desired->records(), NeedsPortFilter);
  return firewall::Goal{.tables = NodeTables(mark_bit, has_port_filter),
                        .forward_hooks = HooksOf(*desired, mark_bit)};
}

// Notes in `checkpoint` what `restored` has put in force, and saves it.
void Note(state::Host& host,
          const firewall::Goal& goal,
          const firewall::Restored& restored,
          state::Checkpoint& checkpoint) {
  checkpoint.generation = restored.generation;
  checkpoint.table_handles = restored.table_handles;
  checkpoint.has_port_filter = goal.tables.size() > 1;
  checkpoint.tables_revision = kTablesRevision;
  NoteHooks(goal, checkpoint);
  SaveCheckpoint(host, checkpoint);
}

struct Converged {
  state::Checkpoint checkpoint;
  std::vector<std::string> repaired;
};

// So that `added`, if there is one, can be added to.
Converged ConvergeFor(state::Host& host, const state::Record* added) {
  state::Checkpoint checkpoint = host.checkpoint.Find().value_or(state::Checkpoint{});
  LazyDesiredState desired(host, {});
  const int mark_bit = added != nullptr ? MarkBitFor(*added, checkpoint, desired)
                                        : MarkBitInUse(checkpoint, desired);
  // Once it is there, it stays.
  bool has_port_filter =
      checkpoint.has_port_filter || (added != nullptr && NeedsPortFilter(*added));
  std::vector<firewall::ForwardHook> hooks = HooksIn(checkpoint, mark_bit);
  const auto find_new_hook = [&](const std::vector<firewall::ForwardHook>& present) {
    return added != nullptr ? FindNewHook(*added, present) : std::nullopt;
  };
  std::optional<firewall::ForwardHook> new_hook = find_new_hook(hooks);

  const bool is_quiet = checkpoint.generation == host.nft.Generation();
  const bool has_same_tables = checkpoint.tables_revision == kTablesRevision &&
                               checkpoint.accept_mark_bit == mark_bit &&
                               checkpoint.has_port_filter == has_port_filter;
  if (is_quiet && has_same_tables && !new_hook) {
    return {.checkpoint = std::move(checkpoint)};
  }
  if (!is_quiet) {
    checkpoint.opened_ifnames.clear();  // other firewalls may have been changed, too
    checkpoint.notes.clear();
  }
  checkpoint.accept_mark_bit = mark_bit;
  firewall::Goal goal{.tables = NodeTables(mark_bit, has_port_filter),
                      .forward_hooks = std::move(hooks),
                      .new_forward_hook = std::move(new_hook)};
  std::optional<firewall::Restored> restored;
  if (has_same_tables && firewall::HandlesOf(host.nft, goal.tables) == checkpoint.table_handles) {
    restored = firewall::RestoreTable(host.nft, goal);
  }
  if (!restored) {
    has_port_filter = has_port_filter || std::ranges::any_of(desired->records(), NeedsPortFilter);
    goal.tables = NodeTables(mark_bit, has_port_filter);
    goal.forward_hooks = HooksOf(*desired, mark_bit);
    goal.new_forward_hook = find_new_hook(goal.forward_hooks);
    restored = RestoreAll(host, goal, *desired, checkpoint);
  }
  FinishRepair(host, restored->repaired, desired);
  Note(host, goal, *restored, checkpoint);
  return {.checkpoint = std::move(checkpoint), .repaired = std::move(restored->repaired)};
}

}  // namespace

state::Checkpoint Converge(state::Host& host, const state::Record& record) {
  return ConvergeFor(host, &record).checkpoint;
}

bool AreForeign(state::Host& host, const nft::Changes& changes) {
  const std::optional<state::Checkpoint> checkpoint = host.checkpoint.Find();
  return checkpoint && checkpoint->tables_revision == kTablesRevision && changes.are_complete &&
         changes.first_generation &&
         *changes.first_generation <= nft::NextGeneration(checkpoint->generation) &&
         !changes.tables.contains(firewall::TableId().name);
}

std::vector<std::string> ConvergeAfterForeignChanges(state::Host& host) {
  const RangeLock one_at_a_time = host.records.LockRules();
  return ConvergeFor(host, nullptr).repaired;
}

std::vector<std::string> ConvergeAll(state::Host& host, const std::set<AttachmentId>& valid) {
  std::set<std::string> kept_owners;
  for (const AttachmentId& id : valid) {
    kept_owners.insert(state::HostVethName(id));
  }
  const RangeLock one_at_a_time = host.records.LockRules();
  state::Checkpoint checkpoint = host.checkpoint.Find().value_or(state::Checkpoint{});
  LazyDesiredState desired(host, std::move(kept_owners));
  const std::optional<firewall::Goal> goal = FindWholeGoal(host, checkpoint, desired);
  if (!goal) {
    return {};
  }
  if (checkpoint.generation != host.nft.Generation()) {
    checkpoint.opened_ifnames.clear();
    checkpoint.notes.clear();
  }
  checkpoint.accept_mark_bit = MarkBitInUse(checkpoint, desired);
  firewall::Restored restored = RestoreAll(host, *goal, *desired, checkpoint);
  FinishRepair(host, restored.repaired, desired);
  Note(host, *goal, restored, checkpoint);
  return std::move(restored.repaired);
}

std::vector<std::string> DiffAll(state::Host& host) {
  if (host.records.List("").empty() && !host.nft.FindTable(firewall::TableId())) {
    return {};  // without making a file for the lock
  }
  const RangeLock one_at_a_time = host.records.LockRules();
  LazyDesiredState desired(host, {});
  const std::optional<firewall::Goal> goal =
      FindWholeGoal(host, host.checkpoint.Find().value_or(state::Checkpoint{}), desired);
  return goal ? firewall::DiffAll(host.nft, *goal, desired->Elements())
              : std::vector<std::string>();
}

std::optional<state::Checkpoint> FindCurrentCheckpoint(state::Host& host) {
  std::optional<state::Checkpoint> checkpoint = host.checkpoint.Find();
  const bool is_current = checkpoint && checkpoint->tables_revision == kTablesRevision &&
                          checkpoint->generation == host.nft.Generation();
  return is_current ? checkpoint : std::nullopt;
}

std::string NameOf(const nft::Element& element) {
  return firewall::Name(NodeTables(firewall::ForwardHook().accept_mark_bit, true), element);
}

void NotePublished(const state::Record& record, state::Checkpoint& checkpoint) {
  for (const portmap::DnatEntry& port : record.rules.ports) {
    if (!Contains(checkpoint.published_on, port.host_ip)) {
      checkpoint.published_on.push_back(port.host_ip);
    }
  }
}

void SaveCheckpoint(state::Host& host, const state::Checkpoint& checkpoint) {
  try {
    host.checkpoint.Write(checkpoint);
  } catch (const Error& error) {
    LogLine("{}, ignoring", error.what());
  }
}

void UpdateCheckpoint(state::Host& host, const std::function<void(state::Checkpoint&)>& change) {
  const RangeLock one_at_a_time = host.records.LockRules();
  state::Checkpoint checkpoint = host.checkpoint.Find().value_or(state::Checkpoint{});
  change(checkpoint);
  SaveCheckpoint(host, checkpoint);
}

std::vector<std::string> DiffRules(state::Host& host, const state::Record& record) {
  const std::vector<nft::Element> elements = ElementsOf(record.OnlyLive());
  if (elements.empty()) {
    return {};
  }
  LazyDesiredState desired(host, {});
  const int mark_bit =
      MarkBitFor(record, host.checkpoint.Find().value_or(state::Checkpoint{}), desired);
  firewall::Goal goal{.tables = NodeTables(mark_bit, NeedsPortFilter(record))};
  if (HasForwardHook(record)) {
    goal.forward_hooks = {record.rules.forward_hook};
  }
  return firewall::Diff(host.nft, goal, elements);
}

}  // namespace nomad_bridge::rules
