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
#include "plugin/rules/conflict.h"
#include "plugin/rules/desired.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/forward_hooks.h"
#include "plugin/rules/stale_conntrack.h"
#include "plugin/rules/tables.h"
#include "plugin/state/kernel_names.h"
#include "portmap/rules.h"

namespace nomad_bridge::rules {
namespace {

// Returns "since 2026-11-24T06:40:00Z", the comment of new counters.
std::string Since() {
  std::array<char, sizeof "since 2026-11-24T06:40:00Z"> text{};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::strftime(text.data(), text.size(), "since %Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

// Returns whether the kernel has the port of `element` for another attachment of the same
// container.
bool IsWithSibling(state::Host& host, const state::Record& record, const nft::Element& element) {
  const std::optional<nft::Element> present =
      portmap::DescribeKey(element).empty() ? std::nullopt
                                            : host.nft.FindElement(firewall::TableId(), element);
  return present && FindSibling(host, record, *present);
}

// Returns whether `checkpoint` describes the tables that this release wants, with the policies in
// force.
bool DescribesWantedTables(const state::Checkpoint& checkpoint, const policy::Program& program) {
  return checkpoint.tables_revision == kTablesRevision &&
         checkpoint.policy_revision == program.Revision();
}

class Convergence {
 public:
  Convergence(state::Host& host, const RulesetScope& scope, Mismatches& mismatches)
      : host_(host),
        scope_(scope),
        mismatches_(mismatches),
        checkpoint_(host.checkpoint.Find().value_or(state::Checkpoint{})),
        program_(host.policy.Program()),
        desired_(host, state::HostVethNames(scope.valid), scope.listed) {}

  [[nodiscard]] Converged Run() {
    // If the node has no network of ours, GC and reconcile make no tables.
    if (scope_.at_least == Depth::kEverything && desired_->records().empty() &&
        !host_.nft.FindTable(firewall::TableId())) {
      return {.checkpoint = std::move(checkpoint_), .depth = Depth::kEverything};
    }
    FindWanted();
    generation_ = host_.nft.Generation();
    is_ruleset_unchanged_ = checkpoint_.generation == generation_;
    Depth depth = FindDepth();
    if (!is_ruleset_unchanged_) {
      checkpoint_.opened_ifnames.clear();  // other firewalls may have been changed, too
    }
    // A set may be missing although the table is the one that we made.
    if (depth == Depth::kTables && !CompareTables()) {
      depth = Depth::kEverything;
    }
    if (depth == Depth::kEverything) {
      CompareEverything();
    }
    return {.checkpoint = std::move(checkpoint_), .depth = depth};
  }

 private:
  // Finds what the tables should look like, from the checkpoint and the new attachment. The chains
  // for the new attachment's policies come with its own commit (commit.cc).
  void FindWanted() {
    mark_bit_ = scope_.added != nullptr ? MarkBitFor(*scope_.added, checkpoint_, desired_)
                                        : MarkBitInUse(checkpoint_, desired_);
    // Once table bridge nomad-bridge exists, it stays: only all records together show whether it is
    // still needed.
    has_port_filter_ =
        checkpoint_.HasPortFilter() || (scope_.added != nullptr && NeedsPortFilter(*scope_.added));
    if (checkpoint_.policy_revision == program_.Revision()) {
      kinds_ = checkpoint_.policy_kinds;
    }
    hooks_ = HooksIn(checkpoint_, mark_bit_);
    if (scope_.added != nullptr) {
      has_new_hook_ = AddHook(scope_.added->rules.forward_hook, hooks_);
    }
  }

  // Decides how much has to be compared. Nothing else decides this.
  [[nodiscard]] Depth FindDepth() {
    const bool wants_same_tables = DescribesWantedTables(checkpoint_, program_) &&
                                   checkpoint_.accept_mark_bit == mark_bit_ &&
                                   checkpoint_.HasPortFilter() == has_port_filter_;
    if (scope_.at_least == Depth::kEverything || !wants_same_tables) {
      return Depth::kEverything;
    }
    if (is_ruleset_unchanged_) {
      return has_new_hook_ ? Depth::kTables : scope_.at_least;
    }
    // A table with another handle replaced ours under the same name, and has none of our elements.
    return firewall::HandlesOf(host_.nft, NodeTableIds(has_port_filter_)) ==
                   checkpoint_.table_handles
               ? Depth::kTables
               : Depth::kEverything;
  }

  // Returns false if elements are missing, too, so that everything has to be compared. Before
  // nearly every ADD, other programs have changed rules of their own. The hashes then show that our
  // rules are unchanged. To describe our rules and compare them would take longer than the rest of
  // the ADD.
  bool CompareTables() {
    if (HashesOfRules() == checkpoint_.rules_hashes && CompareStaticRules()) {
      return true;
    }
    return Compare({.tables = Tables(), .forward_hooks = hooks_}, nullptr);
  }

  // Compares only the static rules, in the tables of iptables. Returns false if somebody has
  // changed a rule since Run() began.
  bool CompareStaticRules() {
    std::optional<firewall::Compared> compared = firewall::Compare(
        host_.nft, {.tables = {}, .forward_hooks = hooks_}, nullptr, mismatches_.mode());
    const bool is_repaired = mismatches_.is_repairing() && !compared->mismatches.empty();
    if (compared->generation != (is_repaired ? nft::NextGeneration(generation_) : generation_)) {
      return false;
    }
    Take(*std::move(compared));
    return true;
  }

  [[nodiscard]] std::vector<std::uint64_t> HashesOfRules() {
    std::vector<std::uint64_t> hashes;
    for (const nft::TableId& table : NodeTableIds(has_port_filter_)) {
      hashes.push_back(host_.nft.HashOfRules(table));
    }
    return hashes;
  }

  void CompareEverything() {
    // If the file of the policies is damaged or lost, the kernel may still have them. Tables made
    // without these policies would let in what they refuse, so this throws and changes nothing.
    RequireReadablePolicies(host_);
    hooks_ = HooksOf(*desired_, mark_bit_);
    if (scope_.added != nullptr) {
      AddHook(scope_.added->rules.forward_hook, hooks_);
    }
    checkpoint_.published_on.clear();
    for (const state::Record& record : desired_->records()) {
      has_port_filter_ = has_port_filter_ || NeedsPortFilter(record);
      AddKind(record, kinds_);
      NotePublished(record, checkpoint_);
    }
    static_cast<void>(
        Compare({.tables = Tables(), .forward_hooks = hooks_}, &desired_->elements()));
  }

  [[nodiscard]] firewall::Tables Tables() const {
    return NodeTables(
        mark_bit_, has_port_filter_, {.program = program_, .kinds = kinds_, .created = Since()});
  }

  // Commits one batch, or nothing in mode kLook. Returns false if that is not enough: see
  // firewall::Compare().
  bool Compare(const firewall::Goal& goal, const firewall::DesiredElements* elements) {
    std::optional<firewall::Compared> compared =
        firewall::Compare(host_.nft, goal, elements, mismatches_.mode());
    if (!compared) {
      return false;
    }
    if (mismatches_.is_repairing()) {
      NoteTables(*compared);
    }
    Take(*std::move(compared));
    return true;
  }

  void Take(firewall::Compared compared) {
    const bool is_repaired = mismatches_.is_repairing() && !compared.mismatches.empty();
    mismatches_.AddAll(std::move(compared.mismatches));
    // Flows that began while the rules were away would go on untranslated, so they are deleted now.
    // If they were deleted before the rules are back, the next packet would begin the same flow
    // again. If nobody has changed a rule, the rules were not away, so no flow ends only because
    // other policies are applied.
    if (is_repaired && !is_ruleset_unchanged_) {
      DeleteUntranslatedConntrack(host_, desired_->records());
    }
    // Last: if this process is killed before, the next command compares once more.
    if (mismatches_.is_repairing()) {
      Note(compared.generation);
    }
  }

  void NoteTables(const firewall::Compared& compared) {
    checkpoint_.table_handles = firewall::HandlesOf(host_.nft, NodeTableIds(has_port_filter_));
    checkpoint_.rules_hashes = HashesOfRules();
    if (host_.nft.Generation() != compared.generation) {
      checkpoint_.rules_hashes.clear();  // the hashes may be of rules that others have changed
    }
  }

  // Writes into the checkpoint what is in force now.
  void Note(std::uint32_t generation) {
    checkpoint_.generation = generation;
    checkpoint_.tables_revision = kTablesRevision;
    checkpoint_.accept_mark_bit = mark_bit_;
    checkpoint_.policy_revision = program_.Revision();
    checkpoint_.policy_kinds = kinds_;
    NoteHooks(hooks_, checkpoint_);
    SaveCheckpoint(host_, checkpoint_);
  }

  state::Host& host_;
  const RulesetScope& scope_;
  Mismatches& mismatches_;
  state::Checkpoint checkpoint_;
  const policy::Program& program_;
  LazyDesiredState desired_;
  int mark_bit_ = 0;
  std::uint32_t generation_ = 0;       // of the ruleset, when Run() began
  bool is_ruleset_unchanged_ = false;  // nobody has changed a rule since our last commit
  bool has_port_filter_ = false;
  Kinds kinds_;  // kinds that have chains
  std::vector<firewall::ForwardHook> hooks_;
  bool has_new_hook_ = false;
};

}  // namespace

Converged Converge(state::Host& host, const RulesetScope& scope, Mismatches& mismatches) {
  host.policy.Refresh();
  return Convergence(host, scope, mismatches).Run();
}

void MakeChainsAhead(state::Host& host,
                     const policy::Program& program,
                     const std::vector<state::Record>& judged) {
  std::optional<state::Checkpoint> checkpoint = host.checkpoint.Find();
  if (!checkpoint || program.empty() || !KernelHasPolicies(host)) {
    return;  // nothing was refused before
  }
  Kinds kinds;
  for (const state::Record& record : judged) {
    AddKind(record, kinds);
  }
  firewall::Change change = {.make = {.id = firewall::TableId()}};
  AddPolicies(program, kinds, Since(), change.make);
  if (const auto generation =
          firewall::Commit(host.nft, change, checkpoint->generation).generation) {
    checkpoint->generation = *generation;
    SaveCheckpoint(host, *checkpoint);
  }
}

Converged CheckRuleset(state::Host& host, const RulesetScope& scope, Mismatches& mismatches) {
  if (host.records.List("").empty() && scope.added == nullptr &&
      !host.nft.FindTable(firewall::TableId())) {
    return {};  // nothing to compare, so no lock file is created
  }
  const FileLock one_at_a_time = host.records.LockRules();
  return Converge(host, scope, mismatches);
}

std::vector<Mismatch> CompareElements(state::Host& host, const state::Record& record) {
  std::vector<Mismatch> mismatches;
  const policy::Program& program = host.policy.Program();
  const state::Record live = WithPolicies(record.OnlyLive(), program);
  const std::vector<nft::Element> elements = ElementsOf(live);
  const std::vector<firewall::Presence> presences = firewall::FindPresences(host.nft, elements);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (presences[i] != firewall::Presence::kSame &&
        !(presences[i] == firewall::Presence::kDifferent &&
          IsWithSibling(host, live, elements[i]))) {
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

std::optional<state::Checkpoint> FindCurrentCheckpoint(state::Host& host) {
  std::optional<state::Checkpoint> checkpoint = host.checkpoint.Find();
  const bool is_current = checkpoint && DescribesWantedTables(*checkpoint, host.policy.Program()) &&
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
