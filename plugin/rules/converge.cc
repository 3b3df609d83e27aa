#include "plugin/rules/converge.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "firewall/table.h"
#include "plugin/rules/desired.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/forward_hooks.h"
#include "plugin/rules/intact.h"
#include "plugin/rules/stale_flows.h"
#include "plugin/rules/tables.h"
#include "plugin/state/kernel_names.h"

namespace nomad_bridge::rules {
namespace {

// Of sets, chains and counters of `tables` that `others` lack.
std::set<std::string> NamesBut(const firewall::Tables& tables, const firewall::Tables& others) {
  const auto names_in = [](const firewall::Tables& all) {
    std::set<std::string> names;
    for (const nft::Table& table : all) {
      for (const nft::Set& set : table.sets) {
        names.insert(set.name);
      }
      for (const nft::Chain& chain : table.chains) {
        names.insert(chain.name);
      }
      for (const nft::Counter& counter : table.counters) {
        names.insert(counter.name);
      }
    }
    return names;
  };
  std::set<std::string> names = names_in(tables);
  for (const std::string& name : names_in(others)) {
    names.erase(name);
  }
  return names;
}

// "since 2026-11-24T06:40:00Z", of counters that begin now.
std::string Since() {
  std::array<char, sizeof "since 2026-11-24T06:40:00Z"> text{};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::strftime(text.data(), text.size(), "since %Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

class Convergence {
 public:
  Convergence(state::Host& host, const Extent& extent, Mismatches& mismatches)
      : host_(host),
        extent_(extent),
        mismatches_(mismatches),
        checkpoint_(host.checkpoint.Find().value_or(state::Checkpoint{})),
        program_(host.policy.Program()),
        desired_(host, state::HostVethNames(extent.valid), extent.listed) {}

  [[nodiscard]] Converged Run() {
    if (extent_.is_whole && desired_->records().empty() &&
        !host_.nft.FindTable(firewall::TableId())) {
      return {.checkpoint = std::move(checkpoint_), .is_whole = true};  // there was none yet
    }
    mark_bit_ = extent_.added != nullptr ? MarkBitFor(*extent_.added, checkpoint_, desired_)
                                         : MarkBitInUse(checkpoint_, desired_);
    FindKinds();
    // Once it is there, it stays.
    has_port_filter_ = checkpoint_.has_port_filter ||
                       (extent_.added != nullptr && NeedsPortFilter(*extent_.added));
    firewall::Goal goal = WithHooks(HooksIn(checkpoint_, mark_bit_));
    // Both: the generation says that nobody has changed a rule, the rest that what stands there is
    // what this binary and this record want.
    const bool is_quiet = checkpoint_.generation == host_.nft.Generation();
    const bool has_same_tables = HasSameTables();
    const bool is_current =
        !extent_.is_whole && is_quiet && has_same_tables && !goal.new_forward_hook;
    if (is_current && (!has_new_kind_ || AddNewKind())) {
      return {.checkpoint = std::move(checkpoint_)};
    }
    if (!is_quiet) {
      checkpoint_.opened_ifnames.clear();  // other firewalls may have been changed, too
    }
    checkpoint_.accept_mark_bit = mark_bit_;
    if (!extent_.is_whole && has_same_tables && CompareLess(std::move(goal))) {
      return {.checkpoint = std::move(checkpoint_)};
    }
    CompareAll();
    return {.checkpoint = std::move(checkpoint_), .is_whole = true};
  }

 private:
  // Of other policies than those in force nothing is known.
  void FindKinds() {
    if (checkpoint_.policy_revision == program_.Revision()) {
      kinds_ = checkpoint_.policy_kinds;
    }
    if (extent_.added != nullptr) {
      const state::Record added = Judged(*extent_.added, program_);
      const std::string kind = KindOf(added.rules.policy);
      has_new_kind_ = !kind.empty() && !kinds_.contains(kind);
      AddKind(added, kinds_);
    }
  }

  // As the checkpoint has them, which the kernel has if nobody has changed a rule.
  [[nodiscard]] bool HasSameTables() const {
    return checkpoint_.tables_revision == kTablesRevision &&
           checkpoint_.accept_mark_bit == mark_bit_ &&
           checkpoint_.has_port_filter == has_port_filter_ &&
           checkpoint_.policy_revision == program_.Revision();
  }

  // To tables that are as they should be, without comparing them: their size depends on the number
  // of kinds. False if they are not.
  [[nodiscard]] bool AddNewKind() {
    const std::optional<std::uint32_t> generation =
        mismatches_.is_repairing()
            ? firewall::Extend(host_.nft,
                               TableOfKind(program_, extent_.added->Workload()),
                               checkpoint_.generation)
            : std::nullopt;
    if (generation) {
      checkpoint_.generation = *generation;
      checkpoint_.policy_kinds = kinds_;
      SaveCheckpoint(host_, checkpoint_);
    }
    return generation.has_value();
  }

  void SetTables(firewall::Goal& goal) {
    goal.tables = NodeTables(
        mark_bit_, has_port_filter_, {.program = program_, .kinds = kinds_, .created = Since()});
    // What a new kind, or other policies, need besides was never there.
    if (checkpoint_.policy_revision != program_.Revision()) {
      goal.new_names = NamesBut(goal.tables, NodeTables(mark_bit_, has_port_filter_));
    } else if (checkpoint_.policy_kinds != kinds_) {
      goal.new_names =
          NamesBut(goal.tables,
                   NodeTables(mark_bit_,
                              has_port_filter_,
                              {.program = program_, .kinds = checkpoint_.policy_kinds}));
    }
  }

  // Of those that the new attachment would add and others have needed already: one of them would
  // be back without a word. Records are read only if one is missing, as with a new bridge.
  [[nodiscard]] bool LacksSharedElements() {
    if (extent_.added == nullptr || !extent_.added->IsAny(state::Phase::kMaking)) {
      return false;
    }
    std::vector<nft::Element> shared = ElementsOf(*extent_.added);
    std::erase_if(shared, [](const nft::Element& element) { return !element.comment.empty(); });
    const std::vector<firewall::Presence> presences = firewall::FindPresences(host_.nft, shared);
    std::vector<nft::Element> lost;
    for (std::size_t i = 0; i < shared.size(); ++i) {
      if (presences[i] != firewall::Presence::kSame) {
        lost.push_back(std::move(shared[i]));
      }
    }
    return !lost.empty() &&
           std::ranges::any_of(desired_->elements().elements,
                               [&](const nft::Element& needed) { return Contains(lost, needed); });
  }

  firewall::Goal WithHooks(std::vector<firewall::ForwardHook> hooks) {
    firewall::Goal goal{.forward_hooks = std::move(hooks)};
    if (extent_.added != nullptr) {
      goal.new_forward_hook = FindNewHook(*extent_.added, goal.forward_hooks);
    }
    return goal;
  }

  // Without elements. False if that is not enough.
  bool CompareLess(firewall::Goal goal) {
    SetTables(goal);
    // By their handles: a table of the same name may be another one, without our elements.
    return firewall::HandlesOf(host_.nft, goal.tables) == checkpoint_.table_handles &&
           !LacksSharedElements() && Compare(goal, nullptr);
  }

  void CompareAll() {
    RequireReadPolicies(host_);
    has_port_filter_ =
        has_port_filter_ || std::ranges::any_of(desired_->records(), NeedsPortFilter);
    firewall::Goal goal = WithHooks(HooksOf(*desired_, mark_bit_));
    for (const state::Record& record : desired_->records()) {
      AddKind(record, kinds_);
    }
    SetTables(goal);
    checkpoint_.published_on.clear();
    for (const state::Record& record : desired_->records()) {
      NotePublished(record, checkpoint_);
    }
    static_cast<void>(Compare(goal, &desired_->elements()));
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
      Note(goal, *compared, elements != nullptr);
    }
    return true;
  }

  // What is in force from now on.
  void Note(const firewall::Goal& goal, const firewall::Compared& compared, bool is_whole) {
    if (is_whole) {
      checkpoint_.intact = HashOf(host_.records.List(""));
      if (extent_.added != nullptr && IsNew(*extent_.added)) {
        Toggle(checkpoint_, extent_.added->id);  // it comes with the commit
      }
    } else if (extent_.foreign_until != compared.generation) {
      checkpoint_.intact.reset();
    }
    checkpoint_.generation = compared.generation;
    checkpoint_.table_handles = compared.table_handles;
    checkpoint_.has_port_filter = has_port_filter_;
    checkpoint_.tables_revision = kTablesRevision;
    checkpoint_.policy_revision = program_.Revision();
    checkpoint_.policy_kinds = kinds_;
    NoteHooks(goal, checkpoint_);
    SaveCheckpoint(host_, checkpoint_);
  }

  state::Host& host_;
  const Extent& extent_;
  Mismatches& mismatches_;
  state::Checkpoint checkpoint_;
  const policy::Program& program_;
  Kinds kinds_;  // that have chains, or are to have them
  bool has_new_kind_ = false;
  LazyDesiredState desired_;
  int mark_bit_ = 0;
  bool has_port_filter_ = false;
};

}  // namespace

Converged Converge(state::Host& host, const Extent& extent, Mismatches& mismatches) {
  host.policy.Refresh();
  return Convergence(host, extent, mismatches).Run();
}

state::Checkpoint CheckRuleset(state::Host& host, const Extent& extent, Mismatches& mismatches) {
  if (host.records.List("").empty() && extent.added == nullptr &&
      !host.nft.FindTable(firewall::TableId())) {
    return {};  // without making a file for the lock
  }
  const FileLock one_at_a_time = host.records.LockRules();
  return Converge(host, extent, mismatches).checkpoint;
}

std::vector<Mismatch> CompareElements(state::Host& host, const state::Record& record) {
  std::vector<Mismatch> mismatches;
  const policy::Program& program = host.policy.Program();
  const state::Record live = Judged(record.OnlyLive(), program);
  const std::vector<nft::Element> elements = ElementsOf(live);
  const std::vector<firewall::Presence> presences = firewall::FindPresences(host.nft, elements);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (presences[i] != firewall::Presence::kSame) {
      Kinds kinds;
      AddKind(live, kinds);
      mismatches.push_back(firewall::MismatchOf(
          NodeTables(
              firewall::ForwardHook().accept_mark_bit, true, {.program = program, .kinds = kinds}),
          elements[i],
          presences[i]));
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
                          checkpoint->policy_revision == host.policy.Program().Revision() &&
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

void UpdateCheckpoint(state::Host& host,
                      const std::function<void(state::Checkpoint&)>& change,
                      RulesLock lock) {
  std::optional<FileLock> one_at_a_time;
  if (lock == RulesLock::kTake) {
    one_at_a_time = host.records.LockRules();
  }
  state::Checkpoint checkpoint = host.checkpoint.Find().value_or(state::Checkpoint{});
  change(checkpoint);
  SaveCheckpoint(host, checkpoint);
}

}  // namespace nomad_bridge::rules
