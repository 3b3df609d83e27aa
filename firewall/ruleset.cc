#include "firewall/ruleset.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "firewall/change.h"
#include "firewall/static_rules.h"
#include "firewall/table.h"

namespace nomad_bridge::firewall {
namespace {

using Area = Finding::Area;

// Our table as the kernel has it.
struct Present {
  nft::Table table;  // its sets, and its chains without their rules
  std::map<std::string, std::vector<nft::KernelRule>> rules;  // by chain
};

Present Read(nft::Socket& socket, const nft::TableId& id) {
  Present present{.table = {.id = id, .sets = socket.Sets(id), .counters = socket.Counters(id)}};
  for (nft::KernelRule& rule : socket.Rules(id)) {
    present.rules[rule.chain].push_back(std::move(rule));
  }
  for (nft::Socket::TableChain& found : socket.Chains(id.family)) {
    if (found.table == id) {
      present.table.chains.push_back(std::move(found.chain));
    }
  }
  return present;
}

// Sets or chains by their names. A table may have thousands of them.
template <typename Object>
std::unordered_map<std::string_view, const Object*> ByName(const std::vector<Object>& all) {
  std::unordered_map<std::string_view, const Object*> by_name;
  for (const Object& each : all) {
    by_name.emplace(each.name, &each);
  }
  return by_name;
}
template <typename Object>
const Object* Find(const std::unordered_map<std::string_view, const Object*>& by_name,
                   std::string_view name) {
  const auto found = by_name.find(name);
  return found != by_name.end() ? found->second : nullptr;
}

// A base chain can be replaced by another in one batch. A chain to jump to cannot: elements that
// lead to it would have to go before.
bool HasSameShape(const nft::Table& present, const nft::Table& table) {
  const auto sets = ByName(present.sets);
  const auto chains = ByName(present.chains);
  return std::ranges::all_of(table.sets,
                             [&](const nft::Set& wanted) {
                               const nft::Set* const set = Find(sets, wanted.name);
                               return set == nullptr || *set == wanted;
                             }) &&
         std::ranges::all_of(table.chains, [&](const nft::Chain& wanted) {
           const nft::Chain* const chain = Find(chains, wanted.name);
           return chain == nullptr || chain->hook.has_value() == wanted.hook.has_value();
         });
}

bool HasSameRules(const Present& present, const nft::Chain& chain) {
  const std::vector<nft::KernelRule> none;
  const auto found = present.rules.find(chain.name);
  return std::ranges::equal(found == present.rules.end() ? none : found->second,
                            chain.rules,
                            std::ranges::equal_to(),
                            &nft::KernelRule::expressions,
                            &nft::ExpressionTexts);
}

// Identifies an element. Consists of references into the element.
using ElementKey = std::tuple<const nft::TableFamily&,
                              const std::string&,
                              const std::vector<std::uint8_t>&,
                              const bool&>;

ElementKey KeyOf(const nft::Element& element) {
  return {element.family, element.set, element.key, element.ends_interval};
}

struct HashOfKey {
  std::size_t operator()(const ElementKey& key) const {
    std::size_t hash = std::hash<std::string>()(std::get<1>(key));
    for (const std::uint8_t byte : std::get<2>(key)) {
      hash = hash * 31 + byte;
    }
    return hash;
  }
};

// The goal's elements, by key. Finds out which of them the kernel lacks, or has with another value.
class WantedElements {
 public:
  explicit WantedElements(const std::vector<nft::Element>& elements) : elements_(elements) {
    by_key_.reserve(elements.size());
    for (const nft::Element& element : elements) {
      by_key_[KeyOf(element)].claims.push_back(&element);
    }
  }

  // Tells what the kernel has. Returns false if no element has the key of `present`.
  bool Match(const nft::Element& present) {
    const auto found = by_key_.find(KeyOf(present));
    if (found == by_key_.end()) {
      return false;
    }
    Wanted& wanted = found->second;
    // If several attachments want the same key, the one that has it in the kernel keeps it.
    const auto owned = std::ranges::find(wanted.claims, present.owner(), &nft::Element::owner);
    if (owned != wanted.claims.end()) {
      std::iter_swap(wanted.claims.begin(), owned);
    }
    wanted.presence = PresenceOf(present, *wanted.claims.front());
    return true;
  }

  // Returns those that differ, in the goal's order, in which an element comes before the elements
  // that name it.
  [[nodiscard]] std::vector<std::pair<const nft::Element*, Presence>> Differing() const {
    std::vector<std::pair<const nft::Element*, Presence>> differing;
    for (const nft::Element& element : elements_) {
      const Wanted& wanted = by_key_.at(KeyOf(element));
      if (wanted.claims.front() == &element && wanted.presence != Presence::kSame) {
        differing.emplace_back(&element, wanted.presence);
      }
    }
    return differing;
  }

 private:
  struct Wanted {
    std::vector<const nft::Element*> claims;  // the first is the one that the kernel should have
    Presence presence = Presence::kMissing;
  };

  const std::vector<nft::Element>& elements_;
  std::unordered_map<ElementKey, Wanted, HashOfKey> by_key_;
};

// Plans the batch that turns the kernel's ruleset into a goal.
class Planner {
 public:
  Planner(nft::Socket& socket, const Goal& goal) : socket_(socket), goal_(goal) {}

  void Run() {
    if (!goal_.tables.empty()) {
      about_ = FindAbout(socket_);
    }
    std::vector<nft::Table> present;
    for (const nft::Table& table : goal_.tables) {
      present.push_back(PlanTable(table));
    }
    Append(findings_, PlanStaticRules(socket_, goal_.forward_hooks, batch_));
    PlanElements();
    // After the elements, which may lead to chains that are removed.
    for (std::size_t i = 0; i < present.size(); ++i) {
      PlanRemovals(present[i], goal_.tables[i]);
    }
    if (!goal_.tables.empty()) {
      PlanAbout();
    }
  }

  [[nodiscard]] const nft::Batch& batch() const { return batch_; }
  [[nodiscard]] bool changes_rules() const { return changes_rules_; }
  [[nodiscard]] FindingList TakeFindings() { return std::move(findings_); }

 private:
  // Plans the table without its elements. Returns what the kernel has of it.
  nft::Table PlanTable(const nft::Table& table) {
    const std::optional<nft::KernelTable> found = socket_.FindTable(table.id);
    Present present = found ? Read(socket_, table.id) : Present();
    const bool is_of_earlier_boot =
        about_ && !about_->boot.empty() && about_->boot != goal_.about.boot;
    if (!found || is_of_earlier_boot || !HasSameShape(present.table, table)) {
      if (found) {
        batch_.DeleteTable(table.id);
      }
      batch_.AddTable(table.id);
      NoteNewTable(table.id, found && is_of_earlier_boot);
      present = {};
    } else if (found->is_dormant) {
      batch_.AddTable(table.id);
      findings_.push_back({Area::kTable, "", Format("table {} is dormant", nft::Text(table.id))});
    }
    // Sets and counters before chains, whose rules name them.
    PlanSets(present.table, table);
    PlanCounters(present.table, table);
    PlanChains(present, table);
    return std::move(present.table);
  }

  void NoteNewTable(const nft::TableId& id, bool is_of_earlier_boot) {
    is_new_.insert(id.family);
    // Without an element in it, nobody misses the table.
    if (std::ranges::count(goal_.elements, id.family, &nft::Element::family) != 0) {
      const std::string what = Cat("table ", nft::Text(id));
      findings_.push_back(
          {.area = Area::kTable,
           .text = Cat(what, is_of_earlier_boot ? " is of an earlier boot" : " is missing"),
           // Without the table of the bridge family, more packets pass, not fewer.
           .ends = id.family != nft::TableFamily::kBridge});
    }
  }

  // Adds a finding for the table `id`, "chain forward in table ... was changed", unless the whole
  // table is new.
  void Report(const std::string& what,
              const nft::TableId& id,
              const char* how,
              Area area = Area::kTable,
              const std::string& chain = {}) {
    if (!is_new_.contains(id.family)) {
      findings_.push_back({.area = area,
                           .text = Format("{} in table {} {}", what, nft::Text(id), how),
                           .severity = area == Area::kLeftOver ? Finding::Severity::kWarning
                                                               : Finding::Severity::kFault,
                           .chain = chain});
    }
  }

  using Names = std::set<std::string>;

  // Returns a set for fast lookups, because there may be thousands of counters.
  static Names NamesOf(const std::vector<nft::Counter>& counters) {
    Names names;
    for (const nft::Counter& counter : counters) {
      names.insert(counter.name);
    }
    return names;
  }

  void PlanSets(const nft::Table& present, const nft::Table& table) {
    const auto sets = ByName(present.sets);
    for (const nft::Set& set : table.sets) {
      if (Find(sets, set.name) == nullptr) {
        batch_.AddSet(table.id, set);
        Report(Cat("set ", set.name), table.id, "is missing");
      }
    }
  }

  void PlanCounters(const nft::Table& present, const nft::Table& table) {
    const Names names = NamesOf(present.counters);
    for (const nft::Counter& counter : table.counters) {
      if (!names.contains(counter.name)) {
        batch_.AddCounter(table.id, counter);
        Report(Cat("counter ", counter.name), table.id, "is missing");
      }
    }
  }

  void PlanChains(const Present& present, const nft::Table& table) {
    bool is_any_different = false;
    const auto chains = ByName(present.table.chains);
    for (const nft::Chain& chain : table.chains) {
      const nft::Chain* const found = Find(chains, chain.name);
      const bool is_there = found != nullptr && found->hook == chain.hook;
      if (!is_there) {
        // The kernel does not change the hook or the priority of a chain.
        if (found != nullptr) {
          batch_.FlushChain(table.id, chain.name);
          batch_.DeleteChain(table.id, chain.name);
        }
        batch_.AddChain(table.id, chain);
      }
      if (!is_there || !HasSameRules(present, chain)) {
        is_any_different = true;
        Report(Cat("chain ", chain.name), table.id, "was changed", Area::kTable, chain.name);
      }
    }
    if (!is_any_different) {
      return;
    }
    // All at once: no packet is judged by a part of them. All chains exist by now, so rules can
    // name them.
    changes_rules_ = true;
    for (const nft::Chain& chain : table.chains) {
      batch_.FlushChain(table.id, chain.name);
      for (const nft::Rule& rule : chain.rules) {
        batch_.AppendRule(table.id, chain.name, rule);
      }
    }
  }

  void PlanElements() {
    WantedElements wanted(goal_.elements);
    for (const nft::Table& table : goal_.tables) {
      if (!is_new_.contains(table.id.family)) {  // a table that is yet to be made has no elements
        MatchElements(table, wanted);
      }
    }
    for (const auto& [element, presence] : wanted.Differing()) {
      const nft::TableId table = TableOf(*element);
      if (presence == Presence::kDifferent) {
        batch_.DeleteElement(table, *element);
      }
      batch_.AddElement(table, *element);
      if (!is_new_.contains(element->family)) {
        findings_.push_back(FindingOf(FindWanted(*element), *element, presence));
      }
    }
  }

  void MatchElements(const nft::Table& table, WantedElements& wanted) {
    for (const nft::Set& set : table.sets) {
      if (set.is_dynamic() || set.name == kAbout) {
        continue;
      }
      for (const nft::Element& present : socket_.Elements(table.id, set.name)) {
        if (!wanted.Match(present)) {
          PlanUnwanted(table, set, present);
        }
      }
    }
  }

  // Returns whether policies decide who is in the set.
  [[nodiscard]] bool IsExact(const nft::Set& set) const {
    return IsMadeForPolicies(set.name) || goal_.exact.sets.contains(set.name);
  }

  // Elements of attachments stay, except for those by which policies judged an attachment before. A
  // list of prefixes belongs to the policies, and is one value: an address that somebody has added
  // to it would pass.
  void PlanUnwanted(const nft::Table& table, const nft::Set& set, const nft::Element& present) {
    const bool is_in_list = (set.flags & nft::kInterval) != 0 && IsShared(present);
    const bool is_former =
        IsExact(set) && goal_.exact.owners.contains(std::string(present.owner()));
    if (is_in_list || is_former) {
      batch_.DeleteElement(table.id, present);
      findings_.push_back(
          {.area = Area::kLeftOver,
           .text = Cat(Name(&set, present), is_in_list ? " has no owner" : " is left over"),
           .severity = Finding::Severity::kWarning});
    } else if (present.verdict && table.FindChain(present.verdict->chain) == nullptr) {
      leads_to_other_chains_ = true;
    }
  }

  [[nodiscard]] const nft::Set* FindWanted(const nft::Element& element) const {
    const auto table = std::ranges::find(goal_.tables, TableOf(element), &nft::Table::id);
    return table == goal_.tables.end() ? nullptr : table->FindSet(element.set);
  }

  // Chains and sets that were made for policies stay while these policies are in force, whether or
  // not a live attachment needs them now; and while an element that stays leads to one of them.
  [[nodiscard]] bool Stays(const std::string& name) const {
    const bool are_same_policies = about_ && about_->policy_revision == goal_.about.policy_revision;
    return IsMadeForPolicies(name) && (are_same_policies || leads_to_other_chains_);
  }

  void PlanRemovals(const nft::Table& present, const nft::Table& table) {
    const auto note = [&](const char* kind, const std::string& name) {
      Report(Format("{} {}", kind, name), table.id, "is left over", Area::kLeftOver);
    };
    std::vector<std::string> chains;
    const auto wanted_chains = ByName(table.chains);
    const auto wanted_sets = ByName(table.sets);
    for (const nft::Chain& chain : present.chains) {
      if (Find(wanted_chains, chain.name) == nullptr && !Stays(chain.name)) {
        chains.push_back(chain.name);
      }
    }
    // All rules first, since they name sets, counters and chains. Sets before chains, since
    // elements of sets may name chains.
    for (const std::string& chain : chains) {
      batch_.FlushChain(table.id, chain);
    }
    for (const nft::Set& set : present.sets) {
      if (!set.is_anonymous() && Find(wanted_sets, set.name) == nullptr && !Stays(set.name)) {
        batch_.DeleteSet(table.id, set.name);
        note("set", set.name);
      }
    }
    for (const std::string& chain : chains) {
      changes_rules_ = true;
      batch_.DeleteChain(table.id, chain);
      note("chain", chain);
    }
    const Names counters = NamesOf(table.counters);
    for (const nft::Counter& counter : present.counters) {
      if (!counters.contains(counter.name) && !Stays(counter.name)) {
        batch_.DeleteCounter(table.id, counter.name);
        note("counter", counter.name);
      }
    }
  }

  // The hash of the rules is known only if this batch leaves them alone. Nobody misses the
  // description, so it is no finding.
  void PlanAbout() {
    const nft::TableId table = TableId();
    About about = goal_.about;
    about.rules = changes_rules_ ? "" : HashOfRules(socket_);
    const nft::Element wanted = ElementOf(about);
    const std::vector<nft::Element> present = is_new_.contains(table.family)
                                                  ? std::vector<nft::Element>()
                                                  : socket_.Elements(table, kAbout);
    if (present == std::vector{wanted}) {
      return;
    }
    for (const nft::Element& element : present) {
      batch_.DeleteElement(table, element);
    }
    batch_.AddElement(table, wanted);
  }

  nft::Socket& socket_;
  const Goal& goal_;
  nft::Batch batch_;
  FindingList findings_;
  std::optional<About> about_;          // in the kernel
  std::set<nft::TableFamily> is_new_;   // families whose table is made anew: no element survives
  bool changes_rules_ = false;          // of our tables
  bool leads_to_other_chains_ = false;  // an element that stays leads to a chain that is not wanted
};

// Writes the hash of the rules, which a repair has just made right. Does nothing if somebody has
// changed a rule since: `generation` is that of the repair.
void WriteHash(nft::Socket& socket, About about, std::uint32_t generation) {
  nft::Batch batch;
  batch.DeleteElement(TableId(), ElementOf(about));
  about.rules = HashOfRules(socket);
  batch.AddElement(TableId(), ElementOf(about));
  static_cast<void>(socket.Commit(batch, generation));
}

}  // namespace

FindingList Compare(nft::Socket& socket, const Goal& goal, Mode mode) {
  if (goal.tables.empty()) {
    // Nearly every ADD finds the static rules in place, and asks for nothing else.
    nft::Batch batch;
    if (PlanStaticRules(socket, goal.forward_hooks, batch).empty() && batch.empty()) {
      return {};
    }
  }
  FindingList findings;
  nft::RetryOnGenerations(
      socket, Cat("change table ", nft::Text(TableId())), {}, [&](std::uint32_t generation) {
        Planner planner(socket, goal);
        planner.Run();
        findings = planner.TakeFindings();
        if (mode == Mode::kLook) {
          return socket.Generation() == generation;
        }
        const bool is_done = nft::TryCommit(socket, planner.batch(), generation);
        if (is_done && planner.changes_rules()) {
          WriteHash(socket, goal.about, nft::NextGeneration(generation));
        }
        return is_done;
      });
  return findings;
}

}  // namespace nomad_bridge::firewall
