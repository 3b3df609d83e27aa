#include "plugin/rules/converge.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "firewall/port_filter.h"
#include "firewall/ruleset.h"
#include "firewall/skeleton.h"
#include "firewall/table.h"
#include "plugin/rules/desired.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/port_side_effects.h"
#include "plugin/state/kernel_names.h"
#include "portmap/rules.h"

namespace nomad_bridge::rules {
namespace {

using firewall::ForwardHook;

firewall::Tables NodeTables(int accept_mark_bit, bool has_port_filter) {
  firewall::Tables tables = {firewall::Describe(accept_mark_bit)};
  portmap::Describe(tables.front());
  if (has_port_filter) {
    tables.push_back(firewall::DescribePortFilter());
  }
  return tables;
}

bool IsForwardedFor(const state::Record& record) {
  return HasForwardHook(record) && record.IsLive(cni::Part::kForward);
}

// All records, read when they are first needed.
class LazyDesiredState {
 public:
  LazyDesiredState(state::Host& host, std::set<std::string> kept_owners)
      : host_(host), kept_owners_(std::move(kept_owners)) {}

  const DesiredState& operator*() {
    if (!state_) {
      state_.emplace(host_, kept_owners_);
    }
    return *state_;
  }
  const DesiredState* operator->() { return &**this; }

 private:
  state::Host& host_;
  std::set<std::string> kept_owners_;
  std::optional<DesiredState> state_;
};

// The mark is one bit for the whole node, so networks have to agree on it.
void RequireSameMarkBit(const state::Record& record, const DesiredState& desired) {
  for (const state::Record& other : desired.records()) {
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

// The one in use, unless nothing is known of it.
int MarkBitInUse(const state::Checkpoint& checkpoint, LazyDesiredState& desired) {
  if (checkpoint.accept_mark_bit != state::kNoMarkBit) {
    return checkpoint.accept_mark_bit;
  }
  const std::vector<state::Record>& records = desired->records();
  const auto other = std::ranges::find_if(records, IsForwardedFor);
  return other != records.end() ? other->rules.forward_hook.accept_mark_bit
                                : ForwardHook().accept_mark_bit;
}

// That of `record` if it is forwarded for, else the one in use.
int MarkBitFor(const state::Record& record,
               const state::Checkpoint& checkpoint,
               LazyDesiredState& desired) {
  if (!HasForwardHook(record)) {
    return MarkBitInUse(checkpoint, desired);
  }
  const int bit = record.rules.forward_hook.accept_mark_bit;
  if (checkpoint.accept_mark_bit != bit) {
    RequireSameMarkBit(record, *desired);
  }
  return bit;
}

std::vector<ForwardHook> HooksIn(const state::Checkpoint& checkpoint, int mark_bit) {
  std::vector<ForwardHook> hooks;
  for (const std::string& chain : checkpoint.admin_chains) {
    hooks.push_back({.admin_chain = chain,
                     .accept_mark_bit = mark_bit,
                     .ipv6 = Contains(checkpoint.admin_chains_ipv6, chain)});
  }
  return hooks;
}

std::vector<ForwardHook> HooksOf(const DesiredState& desired, int mark_bit) {
  std::vector<ForwardHook> hooks;
  for (const state::Record& record : desired.records()) {
    ForwardHook hook = record.rules.forward_hook;
    hook.accept_mark_bit = mark_bit;
    if (IsForwardedFor(record) && !Contains(hooks, hook)) {
      hooks.push_back(std::move(hook));
    }
  }
  return hooks;
}

void NoteHooks(const firewall::Goal& goal, state::Checkpoint& checkpoint) {
  checkpoint.admin_chains.clear();
  checkpoint.admin_chains_ipv6.clear();
  const auto note = [&](const ForwardHook& hook) {
    checkpoint.admin_chains.push_back(hook.admin_chain);
    if (hook.ipv6) {
      checkpoint.admin_chains_ipv6.push_back(hook.admin_chain);
    }
  };
  std::ranges::for_each(goal.forward_hooks, note);
  if (goal.new_forward_hook) {
    note(*goal.new_forward_hook);
  }
  for (std::vector<std::string>* const chains :
       {&checkpoint.admin_chains, &checkpoint.admin_chains_ipv6}) {
    std::ranges::sort(*chains);
    chains->erase(std::unique(chains->begin(), chains->end()), chains->end());
  }
}

std::optional<ForwardHook> FindNewHook(const state::Record& record,
                                       const std::vector<ForwardHook>& hooks) {
  const ForwardHook& own = record.rules.forward_hook;
  const bool is_known = std::ranges::any_of(hooks, [&](const ForwardHook& hook) {
    return hook.admin_chain == own.admin_chain && (hook.ipv6 || !own.ipv6);
  });
  return HasForwardHook(record) && !is_known ? std::optional(own) : std::nullopt;
}

// Whether the tables that the checkpoint speaks of are still there.
bool HasSameTables(state::Host& host,
                   const firewall::Tables& tables,
                   const state::Checkpoint& checkpoint) {
  return firewall::HandlesOf(host.nft, tables) == checkpoint.table_handles;
}

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

// Notes in `checkpoint` what `restored` has put in force, and saves it.
void Note(state::Host& host,
          const firewall::Goal& goal,
          const firewall::Restored& restored,
          state::Checkpoint& checkpoint) {
  checkpoint.generation = restored.generation;
  checkpoint.table_handles = restored.table_handles;
  checkpoint.has_port_filter = goal.tables.size() > 1;
  checkpoint.table_fingerprint = firewall::Fingerprint(goal.tables);
  NoteHooks(goal, checkpoint);
  SaveCheckpoint(host, checkpoint);
}

}  // namespace

bool HasForwardHook(const state::Record& record) {
  return !record.rules.forward_hook.admin_chain.empty();
}

Converged Converge(state::Host& host, const state::Record& record) {
  state::Checkpoint checkpoint = host.checkpoint.Find().value_or(state::Checkpoint{});
  LazyDesiredState desired(host, {});
  const int mark_bit = MarkBitFor(record, checkpoint, desired);
  // Once it is there, it stays.
  bool has_port_filter = checkpoint.has_port_filter || NeedsPortFilter(record);
  firewall::Goal goal{.tables = NodeTables(mark_bit, has_port_filter),
                      .forward_hooks = HooksIn(checkpoint, mark_bit)};
  goal.new_forward_hook = FindNewHook(record, goal.forward_hooks);

  const bool is_quiet = checkpoint.generation == host.nft.Generation();
  const bool is_this_release = checkpoint.table_fingerprint == firewall::Fingerprint(goal.tables);
  if (is_quiet && is_this_release && !goal.new_forward_hook) {
    return {.checkpoint = std::move(checkpoint), .tables = std::move(goal.tables)};
  }
  if (!is_quiet) {
    checkpoint.opened_ifnames.clear();  // other firewalls may have been changed, too
    checkpoint.notes.clear();
  }
  checkpoint.accept_mark_bit = mark_bit;
  std::optional<firewall::Restored> restored;
  if (is_this_release && HasSameTables(host, goal.tables, checkpoint)) {
    restored = firewall::RestoreTable(host.nft, goal);
  }
  if (!restored) {
    has_port_filter = has_port_filter || std::ranges::any_of(desired->records(), NeedsPortFilter);
    goal.tables = NodeTables(mark_bit, has_port_filter);
    goal.forward_hooks = HooksOf(*desired, mark_bit);
    goal.new_forward_hook = FindNewHook(record, goal.forward_hooks);
    restored = RestoreAll(host, goal, *desired, checkpoint);
  }
  FinishRepair(host, restored->repaired, desired);
  Note(host, goal, *restored, checkpoint);
  return {.checkpoint = std::move(checkpoint), .tables = std::move(goal.tables)};
}

void ConvergeAll(state::Host& host, const std::set<AttachmentId>& valid) {
  std::set<std::string> kept_owners;
  for (const AttachmentId& id : valid) {
    kept_owners.insert(state::HostVethName(id));
  }
  const RangeLock one_at_a_time = host.records.LockRules();
  state::Checkpoint checkpoint = host.checkpoint.Find().value_or(state::Checkpoint{});
  LazyDesiredState desired(host, std::move(kept_owners));
  if (desired->records().empty() && !host.nft.FindTable(firewall::TableId())) {
    return;  // there has been no attachment yet
  }
  const int mark_bit = MarkBitInUse(checkpoint, desired);
  const bool has_port_filter =
      checkpoint.has_port_filter || std::ranges::any_of(desired->records(), NeedsPortFilter);
  const firewall::Goal goal{.tables = NodeTables(mark_bit, has_port_filter),
                            .forward_hooks = HooksOf(*desired, mark_bit)};
  if (checkpoint.generation != host.nft.Generation()) {
    checkpoint.opened_ifnames.clear();
    checkpoint.notes.clear();
  }
  checkpoint.accept_mark_bit = mark_bit;
  const firewall::Restored restored = RestoreAll(host, goal, *desired, checkpoint);
  FinishRepair(host, restored.repaired, desired);
  Note(host, goal, restored, checkpoint);
}

std::optional<state::Checkpoint> FindCurrentCheckpoint(state::Host& host) {
  std::optional<state::Checkpoint> checkpoint = host.checkpoint.Find();
  const bool is_current = checkpoint && checkpoint->generation == host.nft.Generation() &&
                          checkpoint->table_fingerprint ==
                              firewall::Fingerprint(NodeTables(checkpoint->accept_mark_bit,
                                                               checkpoint->has_port_filter));
  return is_current ? checkpoint : std::nullopt;
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
