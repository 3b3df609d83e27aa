#include "plugin/rules/converge.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "firewall/table.h"
#include "plugin/rules/desired.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/forward_hooks.h"
#include "plugin/rules/stale_flows.h"
#include "plugin/rules/tables.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::rules {
namespace {

std::set<std::string> OwnersOf(const std::set<AttachmentId>& ids) {
  std::set<std::string> owners;
  for (const AttachmentId& id : ids) {
    owners.insert(state::HostVethName(id));
  }
  return owners;
}

class Convergence {
 public:
  Convergence(state::Host& host, const Extent& extent, Mismatches& mismatches)
      : host_(host),
        extent_(extent),
        mismatches_(mismatches),
        checkpoint_(host.checkpoint.Find().value_or(state::Checkpoint{})),
        desired_(host, OwnersOf(extent.valid)) {}

  [[nodiscard]] Converged Run() {
    if (extent_.is_whole && desired_->records().empty() &&
        !host_.nft.FindTable(firewall::TableId())) {
      return {.checkpoint = std::move(checkpoint_), .is_whole = true};  // there was none yet
    }
    mark_bit_ = extent_.added != nullptr ? MarkBitFor(*extent_.added, checkpoint_, desired_)
                                         : MarkBitInUse(checkpoint_, desired_);
    // Once it is there, it stays.
    has_port_filter_ = checkpoint_.has_port_filter ||
                       (extent_.added != nullptr && NeedsPortFilter(*extent_.added));
    firewall::Goal goal = WithHooks(HooksIn(checkpoint_, mark_bit_));
    // Both: the generation says that nobody has changed a rule, the rest that what stands there is
    // what this binary and this record want.
    const bool is_quiet = checkpoint_.generation == host_.nft.Generation();
    const bool has_same_tables = checkpoint_.tables_revision == kTablesRevision &&
                                 checkpoint_.accept_mark_bit == mark_bit_ &&
                                 checkpoint_.has_port_filter == has_port_filter_;
    if (!extent_.is_whole && is_quiet && has_same_tables && !goal.new_forward_hook) {
      return {.checkpoint = std::move(checkpoint_)};
    }
    if (!is_quiet) {
      checkpoint_.opened_ifnames.clear();  // other firewalls may have been changed, too
    }
    checkpoint_.accept_mark_bit = mark_bit_;
    goal.tables = NodeTables(mark_bit_, has_port_filter_);
    // By their handles: a table of the same name may be another one, without our elements.
    const bool may_compare_less =
        !extent_.is_whole && has_same_tables &&
        firewall::HandlesOf(host_.nft, goal.tables) == checkpoint_.table_handles;
    if (may_compare_less && Compare(goal, nullptr)) {
      return {.checkpoint = std::move(checkpoint_)};
    }
    CompareAll();
    return {.checkpoint = std::move(checkpoint_), .is_whole = true};
  }

 private:
  firewall::Goal WithHooks(std::vector<firewall::ForwardHook> hooks) {
    firewall::Goal goal{.forward_hooks = std::move(hooks)};
    if (extent_.added != nullptr) {
      goal.new_forward_hook = FindNewHook(*extent_.added, goal.forward_hooks);
    }
    return goal;
  }

  void CompareAll() {
    has_port_filter_ =
        has_port_filter_ || std::ranges::any_of(desired_->records(), NeedsPortFilter);
    firewall::Goal goal = WithHooks(HooksOf(*desired_, mark_bit_));
    goal.tables = NodeTables(mark_bit_, has_port_filter_);
    checkpoint_.published_on.clear();
    for (const state::Record& record : desired_->records()) {
      NotePublished(record, checkpoint_);
    }
    const firewall::DesiredElements elements = desired_->Elements();
    static_cast<void>(Compare(goal, &elements));
  }

  // False if that is not enough, as elements are missing: see firewall::Compare().
  bool Compare(const firewall::Goal& goal, const firewall::DesiredElements* elements) {
    std::optional<firewall::Compared> compared =
        firewall::Compare(host_.nft, goal, elements, mismatches_.mode());
    if (!compared) {
      return false;
    }
    const bool is_repaired = mismatches_.is_repairing() && !compared->mismatches.empty();
    mismatches_.AddAll(std::move(compared->mismatches));
    // Flows that began while the rules were away would go on without a translation.
    if (is_repaired) {
      ForgetUntranslatedFlows(host_, desired_->records());
    }
    if (mismatches_.is_repairing()) {
      Note(goal, *compared);
    }
    return true;
  }

  // What is in force from now on.
  void Note(const firewall::Goal& goal, const firewall::Compared& compared) {
    checkpoint_.generation = compared.generation;
    checkpoint_.table_handles = compared.table_handles;
    checkpoint_.has_port_filter = has_port_filter_;
    checkpoint_.tables_revision = kTablesRevision;
    NoteHooks(goal, checkpoint_);
    SaveCheckpoint(host_, checkpoint_);
  }

  state::Host& host_;
  const Extent& extent_;
  Mismatches& mismatches_;
  state::Checkpoint checkpoint_;
  LazyDesiredState desired_;
  int mark_bit_ = 0;
  bool has_port_filter_ = false;
};

}  // namespace

Converged Converge(state::Host& host, const Extent& extent, Mismatches& mismatches) {
  return Convergence(host, extent, mismatches).Run();
}

std::vector<Mismatch> CompareElements(state::Host& host, const state::Record& record) {
  std::vector<Mismatch> mismatches;
  for (const nft::Element& element : ElementsOf(record.OnlyLive())) {
    const firewall::Presence presence = firewall::FindPresence(host.nft, element);
    if (presence != firewall::Presence::kSame) {
      mismatches.push_back(firewall::MismatchOf(
          NodeTables(firewall::ForwardHook().accept_mark_bit, true), element, presence));
    }
  }
  return mismatches;
}

bool AreForeign(state::Host& host, const nft::Changes& changes) {
  const std::optional<state::Checkpoint> checkpoint = host.checkpoint.Find();
  return checkpoint && checkpoint->tables_revision == kTablesRevision && changes.are_complete &&
         changes.first_generation &&
         *changes.first_generation <= nft::NextGeneration(checkpoint->generation) &&
         !changes.tables.contains(firewall::TableId().name);
}

std::optional<state::Checkpoint> FindCurrentCheckpoint(state::Host& host) {
  std::optional<state::Checkpoint> checkpoint = host.checkpoint.Find();
  const bool is_current = checkpoint && checkpoint->tables_revision == kTablesRevision &&
                          checkpoint->generation == host.nft.Generation();
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
  const FileLock one_at_a_time = host.records.LockRules();
  state::Checkpoint checkpoint = host.checkpoint.Find().value_or(state::Checkpoint{});
  change(checkpoint);
  SaveCheckpoint(host, checkpoint);
}

}  // namespace nomad_bridge::rules
