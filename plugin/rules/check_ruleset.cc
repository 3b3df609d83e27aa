#include "plugin/rules/check_ruleset.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/list.h"
#include "base/text.h"
#include "firewall/change.h"
#include "firewall/ruleset.h"
#include "firewall/table.h"
#include "plugin/link/liveness.h"
#include "plugin/rules/conflict.h"
#include "plugin/rules/elements.h"
#include "plugin/rules/policy_tables.h"
#include "plugin/rules/stale_conntrack.h"
#include "plugin/rules/tables.h"
#include "plugin/state/kernel_names.h"
#include "portmap/rules.h"

namespace nomad_bridge::rules {
namespace {

using firewall::About;
using firewall::ForwardHook;

// Returns whether the tables were made in this boot, by this release, with the policies in force.
// What else they are is in `about` alone.
bool IsCurrent(const std::optional<About>& about, state::Host& host) {
  return about && about->boot == host.boot && about->tables_revision == kTablesRevision &&
         about->policy_revision == host.policy.Program().Revision();
}

// Returns the live parts of every live attachment, as judged by the policies in force. The oldest
// is the first: a port that a container publishes in two networks belongs to the first.
std::vector<state::Record> AllLive(state::Host& host, const link::ListedVeths* listed) {
  std::vector<state::Record> records = host.records.All();
  std::erase_if(records, [&](const state::Record& record) {
    const std::optional<rtnl::Link> veth =
        listed != nullptr ? listed->Find(record.id, link::Recorded::kYes) : std::nullopt;
    return !record.IsAny(state::Phase::kLive) || !link::IsAlive(host, record, veth);
  });
  std::ranges::sort(records, {}, [](const state::Record& record) {
    return std::tie(record.created, record.id.ifname);
  });
  return records;
}

bool IsForwardedFor(const state::Record& record) {
  return HasForwardHook(record) && record.IsLive(cni::Part::kForward);
}

// The mark is one bit for the whole node, so networks have to agree on it.
void RequireSameMarkBit(const state::Record& record, const std::vector<state::Record>& live) {
  for (const state::Record& other : live) {
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

// Policies make a bridge of ours hand over the packets between its ports, also those of IPv6
// link-local addresses. The tables of iptables must accept what our chains have judged.
bool HasHandedOver(const state::Record& record) {
  return !record.rules.policy.revision.empty() && record.IsLive(cni::Part::kLink) &&
         record.link.made_by_us;
}

// Returns the hooks that `records` need, each chain once for each family.
std::vector<ForwardHook> HooksOf(const std::vector<state::Record>& records, int mark_bit) {
  std::vector<ForwardHook> hooks;
  const auto add = [&](ForwardHook hook) {
    hook.accept_mark_bit = mark_bit;
    if (!Contains(hooks, hook)) {
      hooks.push_back(std::move(hook));
    }
  };
  for (const state::Record& record : records) {
    if (IsForwardedFor(record)) {
      add(record.rules.forward_hook);
    }
    if (HasHandedOver(record)) {
      add({.ipv6 = true});
    }
  }
  return hooks;
}

// Gathers what the kernel should have, from the records of live attachments and the policies.
class Wanted {
 public:
  Wanted(state::Host& host, const state::Record* added, const link::ListedVeths* listed)
      : host_(host), about_(firewall::FindAbout(host.nft)), live_(AllLive(host, listed)) {
    mark_bit_ = FindMarkBit(added);
    for (state::Record& record : live_) {
      record = WithPolicies(record.OnlyLive(), host.policy.Program());
      Append(elements_, ElementsOf(record));
      Need(record);
    }
    needed_ = live_;
    if (added != nullptr) {
      needed_.push_back(added->Finished());
      Need(needed_.back());
    }
  }

  [[nodiscard]] const std::vector<state::Record>& live() const { return live_; }
  [[nodiscard]] bool IsNothing() const {
    return needed_.empty() && !host_.nft.FindTable(firewall::TableId());
  }

  // Returns whether nobody has changed a rule of our tables since they were compared last.
  [[nodiscard]] bool AreRulesUntouched() const {
    return about_ && about_->rules == firewall::HashOfRules(host_.nft);
  }
  // Returns whether the tables say of themselves what they should be.
  [[nodiscard]] bool IsDescribed() const {
    return IsCurrent(about_, host_) && about_->accept_mark_bit == mark_bit_;
  }

  [[nodiscard]] firewall::Goal Goal() const {
    const policy::Program& program = host_.policy.Program();
    // All records together might show that the table is no longer needed. It stays, so that it does
    // not come and go with the attachments of one network.
    const bool has_port_filter =
        needs_port_filter_ ||
        host_.nft.FindTable(firewall::TableId(nft::TableFamily::kBridge)).has_value();
    firewall::Goal goal = {
        .tables = NodeTables(mark_bit_, has_port_filter, {.program = program, .kinds = kinds_}),
        .about = {.accept_mark_bit = mark_bit_,
                  .boot = host_.boot,
                  .tables_revision = kTablesRevision,
                  .policy_revision = program.Revision()},
        .elements = elements_,
        .exact = {.sets = PolicySets(), .owners = {}},
        .forward_hooks = HooksOf(needed_, mark_bit_)};
    Append(goal.elements, ListElements(program, goal.tables));
    for (const state::Record& record : live_) {
      goal.exact.owners.insert(state::HostVethName(record.id));
    }
    return goal;
  }

 private:
  void Need(const state::Record& record) {
    needs_port_filter_ = needs_port_filter_ || NeedsPortFilter(record);
    AddKind(record, kinds_);
  }

  [[nodiscard]] int FindMarkBit(const state::Record* added) const {
    if (added != nullptr && HasForwardHook(*added)) {
      RequireSameMarkBit(*added, live_);
      return added->rules.forward_hook.accept_mark_bit;
    }
    const auto other = std::ranges::find_if(live_, IsForwardedFor);
    return other != live_.end() ? other->rules.forward_hook.accept_mark_bit
           : about_             ? about_->accept_mark_bit
                                : ForwardHook().accept_mark_bit;
  }

  state::Host& host_;
  std::optional<About> about_;  // in the kernel
  std::vector<state::Record> live_;
  std::vector<state::Record> needed_;  // for whom the tables are: the live ones, and the added one
  std::vector<nft::Element> elements_;
  int mark_bit_ = 0;
  bool needs_port_filter_ = false;
  Kinds kinds_;  // that need chains
};

// Compares everything. Returns whether all of it is right. Needs the rules' lock for a repair.
bool Check(state::Host& host,
           const state::Record* added,
           const link::ListedVeths* listed,
           Findings& findings) {
  host.policy.Refresh();
  RequireReadablePolicies(host);
  const Wanted wanted(host, added, listed);
  if (wanted.IsNothing()) {
    return true;
  }
  const bool were_rules_whole = wanted.AreRulesUntouched();
  FindingList found = firewall::Compare(host.nft, wanted.Goal(), findings.mode());
  const bool were_elements_whole = std::ranges::none_of(
      found, [](const Finding& finding) { return finding.area == Finding::Area::kElement; });
  // Flows that began while rules or elements were away would go on untranslated, so they are
  // deleted now. If they were deleted before the rules are back, the next packet would begin the
  // same flow again.
  if (findings.is_repairing() && !found.empty() && !(were_rules_whole && were_elements_whole)) {
    DeleteUntranslatedConntrack(host, wanted.live());
  }
  const bool is_right = found.empty() && were_rules_whole && wanted.IsDescribed();
  findings.AddAll(std::move(found));
  return is_right;
}

// Returns whether the kernel has the port of `element` for another attachment of the same
// container.
bool IsWithSibling(state::Host& host, const state::Record& record, const nft::Element& element) {
  const std::optional<nft::Element> present =
      portmap::DescribeKey(element).empty() ? std::nullopt
                                            : host.nft.FindElement(firewall::TableId(), element);
  return present && FindSibling(host, record, *present);
}

// Makes the chains that the policies have for `judged`. This needs a commit of its own, before the
// commit of the elements that lead to the chains. During a commit, a packet may find an element of
// the new generation and still run the chain's rules of the previous generation. A chain that is
// new has no rules there, so the packet would pass.
void MakeChainsAhead(state::Host& host, const std::vector<state::Record>& judged) {
  const policy::Program& program = host.policy.Program();
  if (program.empty() || !KernelHasPolicies(host)) {
    return;  // nothing was refused before
  }
  Kinds kinds;
  for (const state::Record& record : judged) {
    AddKind(record, kinds);
  }
  firewall::Change change = {.make = {{.id = firewall::TableId()}}};
  if (const nft::TableId ports = firewall::TableId(nft::TableFamily::kBridge);
      host.nft.FindTable(ports)) {
    change.make.push_back({.id = ports});
  }
  AddPolicies(program, kinds, change.make);
  if (const std::optional<Error> refusal = firewall::ChangeElements(host.nft, change).refusal) {
    throw Error(*refusal);
  }
}

}  // namespace

bool HasForwardHook(const state::Record& record) {
  return !record.rules.forward_hook.admin_chain.empty();
}

void CheckRuleset(state::Host& host, Findings& findings, const link::ListedVeths* listed) {
  if (host.records.List("").empty() && !host.nft.FindTable(firewall::TableId())) {
    return;  // nothing to compare, so no lock file is created
  }
  // First without the lock: no ADD waits for a check that finds nothing.
  Findings first_look(Mode::kLook);
  if (Check(host, nullptr, listed, first_look)) {
    return;
  }
  const FileLock one_at_a_time = host.records.LockRules();
  static_cast<void>(Check(host, nullptr, listed, findings));
}

bool CheckTables(state::Host& host, const std::vector<state::Record>& records, Findings& findings) {
  host.policy.Refresh();
  const std::optional<About> about = firewall::FindAbout(host.nft);
  // If the tables do not say what rules they should have, nobody has compared these yet.
  if (!IsCurrent(about, host) || about->rules != firewall::HashOfRules(host.nft)) {
    CheckRuleset(host, findings, nullptr);
    return true;
  }
  const std::vector<ForwardHook> hooks = HooksOf(records, about->accept_mark_bit);
  if (!firewall::Compare(host.nft, {.forward_hooks = hooks}, Mode::kLook).empty()) {
    const FileLock one_at_a_time = host.records.LockRules();
    findings.AddAll(firewall::Compare(host.nft, {.forward_hooks = hooks}, findings.mode()));
  }
  return false;
}

void EnsureTables(state::Host& host, const state::Record& record) {
  const std::optional<About> about = firewall::FindAbout(host.nft);
  const int mark_bit = record.rules.forward_hook.accept_mark_bit;
  const bool is_forwarded = HasForwardHook(record) && record.Has(cni::Part::kForward);
  if (!IsCurrent(about, host) || (is_forwarded && about->accept_mark_bit != mark_bit)) {
    RepairRuleset(host, &record);
  } else if (const auto hooks = HooksOf({record.Finished()}, about->accept_mark_bit);
             !hooks.empty()) {
    static_cast<void>(firewall::Compare(host.nft, {.forward_hooks = hooks}, Mode::kRepair));
  }
}

void RepairRuleset(state::Host& host, const state::Record* added) {
  Findings silent = Findings::Silently();
  static_cast<void>(Check(host, added, nullptr, silent));
}

// The rules that others removed have been restored before, and the flows that began without them
// deleted. So the switch itself ends no flow.
void SwitchPolicies(state::Host& host, const std::vector<state::Record>& judged) {
  MakeChainsAhead(host, judged);
  const Wanted wanted(host, nullptr, nullptr);
  if (!wanted.IsNothing()) {
    static_cast<void>(firewall::Compare(host.nft, wanted.Goal(), Mode::kRepair));
  }
}

FindingList CompareElements(state::Host& host, const state::Record& record) {
  FindingList findings;
  const state::Record live = WithPolicies(record.OnlyLive(), host.policy.Program());
  const std::vector<nft::Element> elements = ElementsOf(live);
  const std::vector<firewall::Presence> presences = firewall::FindPresences(host.nft, elements);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (presences[i] != firewall::Presence::kSame &&
        !(presences[i] == firewall::Presence::kDifferent &&
          IsWithSibling(host, live, elements[i]))) {
      const firewall::OwnSet* const own = FindRow(elements[i]);
      findings.push_back(
          firewall::FindingOf(own == nullptr ? nullptr : &own->set, elements[i], presences[i]));
    }
  }
  return findings;
}

}  // namespace nomad_bridge::rules
