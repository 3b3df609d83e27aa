#include "firewall/goal_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "firewall/static_rules.h"
#include "firewall/table.h"

namespace nomad_bridge::firewall {
namespace {

using Area = Mismatch::Area;

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

// A chain's policy can be changed in place; its hook cannot.
bool SamePlace(std::optional<nft::Hook> present, const std::optional<nft::Hook>& wanted) {
  if (present && wanted) {
    present->drops = wanted->drops;
  }
  return present == wanted;
}

bool HasSameShape(const nft::Table& present, const nft::Table& table) {
  return std::ranges::all_of(table.sets,
                             [&](const nft::Set& wanted) {
                               const nft::Set* const set = present.FindSet(wanted.name);
                               return set == nullptr || *set == wanted;
                             }) &&
         std::ranges::all_of(table.chains, [&](const nft::Chain& wanted) {
           const nft::Chain* const chain = present.FindChain(wanted.name);
           return chain == nullptr || SamePlace(chain->hook, wanted.hook);
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

// Adds a mismatch for the table `id`, "chain forward in table ... was changed", unless the whole
// table is new.
void Note(GoalPlan& plan,
          const std::string& what,
          const nft::TableId& id,
          const char* how,
          Area area = Area::kTable) {
  if (!plan.is_new.contains(id.family)) {
    plan.mismatches.push_back({.area = area,
                               .text = Format("{} in table {} {}", what, nft::Text(id), how),
                               .part = what});
  }
}

using Names = std::set<std::string>;

// Returns a set for fast lookups, because there may be thousands of counters.
Names NamesOf(const std::vector<nft::Counter>& counters) {
  Names names;
  for (const nft::Counter& counter : counters) {
    names.insert(counter.name);
  }
  return names;
}

void PlanSets(const nft::Table& present, const nft::Table& table, GoalPlan& plan) {
  for (const nft::Set& set : table.sets) {
    if (present.FindSet(set.name) == nullptr) {
      plan.batch.AddSet(table.id, set);
      plan.lacks_elements = plan.lacks_elements || !set.is_dynamic();
      Note(plan, Cat("set ", set.name), table.id, "is missing");
    }
  }
}

void PlanCounters(const nft::Table& present, const nft::Table& table, GoalPlan& plan) {
  const Names names = NamesOf(present.counters);
  for (const nft::Counter& counter : table.counters) {
    if (!names.contains(counter.name)) {
      plan.batch.AddCounter(table.id, counter);
      Note(plan, Cat("counter ", counter.name), table.id, "is missing");
    }
  }
}

void PlanChains(const Present& present, const nft::Table& table, GoalPlan& plan) {
  std::vector<const nft::Chain*> different;
  for (const nft::Chain& chain : table.chains) {
    const nft::Chain* const found = present.table.FindChain(chain.name);
    const bool is_there = found != nullptr && found->hook == chain.hook;
    if (!is_there) {
      plan.batch.AddChain(table.id, chain);
    }
    if (!is_there || !HasSameRules(present, chain)) {
      different.push_back(&chain);
      Note(plan, Cat("chain ", chain.name), table.id, "was changed");
    }
  }
  // All chains before any rule: rules name chains.
  for (const nft::Chain* const chain : different) {
    plan.batch.FlushChain(table.id, chain->name);
    for (const nft::Rule& rule : chain->rules) {
      plan.batch.AppendRule(table.id, chain->name, rule);
    }
  }
}

void PlanRemovals(const nft::Table& present, const nft::Table& table, GoalPlan& plan) {
  std::vector<std::string> chains;
  for (const nft::Chain& chain : present.chains) {
    if (table.FindChain(chain.name) == nullptr) {
      chains.push_back(chain.name);
    }
  }
  // All rules first, since they name sets, counters and chains. Sets before chains, since elements
  // of sets may name chains.
  for (const std::string& chain : chains) {
    plan.removals.FlushChain(table.id, chain);
  }
  for (const nft::Set& set : present.sets) {
    if (!set.is_anonymous() && table.FindSet(set.name) == nullptr) {
      plan.removals.DeleteSet(table.id, set.name);
      Note(plan, Cat("set ", set.name), table.id, "is left over", Area::kLeftOver);
    }
  }
  for (const std::string& chain : chains) {
    plan.removals.DeleteChain(table.id, chain);
    Note(plan, Cat("chain ", chain), table.id, "is left over", Area::kLeftOver);
  }
  const Names counters = NamesOf(table.counters);
  for (const nft::Counter& counter : present.counters) {
    if (!counters.contains(counter.name)) {
      plan.removals.DeleteCounter(table.id, counter.name);
      Note(plan, Cat("counter ", counter.name), table.id, "is left over", Area::kLeftOver);
    }
  }
}

// Adds changes to `plan` that make the kernel's table equal to `table`, except for elements.
void PlanTable(nft::Socket& socket, const nft::Table& table, LeftOver left_over, GoalPlan& plan) {
  const std::optional<nft::KernelTable> found = socket.FindTable(table.id);
  Present present = found ? Read(socket, table.id) : Present();
  if (!found || !HasSameShape(present.table, table)) {
    if (found) {
      plan.batch.DeleteTable(table.id);
    }
    plan.batch.AddTable(table.id);
    plan.is_new.insert(table.id.family);
    present = {};
  } else if (found->is_dormant) {
    plan.batch.AddTable(table.id);
    plan.mismatches.push_back(
        {Area::kTable, "", Format("table {} is dormant", nft::Text(table.id))});
  }
  // Sets and counters before chains, whose rules name them.
  PlanSets(present.table, table, plan);
  PlanCounters(present.table, table, plan);
  PlanChains(present, table, plan);
  if (left_over == LeftOver::kRemove) {
    PlanRemovals(present.table, table, plan);
  }
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

// Adds changes to `plan` that make the kernel's elements equal to the elements of `desired`.
class ElementsPlan {
 public:
  ElementsPlan(const Tables& tables, const DesiredElements& desired, GoalPlan& plan)
      : tables_(tables),
        desired_(desired),
        plan_(plan),
        presences_(desired.elements.size(), Presence::kMissing) {
    places_.reserve(desired.elements.size());
    for (std::size_t i = 0; i < desired.elements.size(); ++i) {
      if (!places_.try_emplace(KeyOf(desired.elements[i]), i).second) {
        presences_[i] = Presence::kSame;  // the first with this key is compared
        if (!IsShared(desired.elements[i])) {
          claims_.push_back(i);
        }
      }
    }
  }

  // Decides about an element in the kernel: it is desired, it may stay, or it is removed.
  void AddPresent(const nft::Table& table, const nft::Element& present) {
    const auto place = places_.find(KeyOf(present));
    if (place != places_.end()) {
      PreferOwner(present, place->second);
    }
    const nft::Element* const element =
        place == places_.end() ? nullptr : &desired_.elements[place->second];
    const bool is_same = element && (IsShared(*element) || present == *element);
    // An element without a comment was replaced by hand.
    const bool is_own = element && (present.comment.empty() || present.owner() == element->owner());
    const bool stays = is_same || (!is_own && desired_.may_stay(present));
    if (element) {
      presences_[place->second] = stays ? Presence::kSame : Presence::kDifferent;
    }
    if (stays) {
      AddStaying(table, present);
      return;
    }
    plan_.batch.DeleteElement(table.id, present);
    if (!element) {
      plan_.mismatches.push_back({Area::kLeftOver,
                                  std::string(present.owner()),
                                  Cat(Name(tables_, present), " has no owner")});
      plan_.mismatches.back().part = present.data.empty() ? "" : kLeadsNowhere;
    }
  }

  // Adds the elements that the kernel lacks or has with another value. Call it after AddPresent()
  // for all elements of the kernel. Keeps the order of `desired`, in which an element comes before
  // the elements that name it.
  void AddWanted() {
    for (std::size_t i = 0; i < presences_.size(); ++i) {
      if (presences_[i] == Presence::kSame) {
        continue;
      }
      const nft::Element& element = desired_.elements[i];
      plan_.batch.AddElement(TableOf(element), element);
      if (!plan_.is_new.contains(element.family)) {
        plan_.mismatches.push_back(MismatchOf(tables_, element, presences_[i]));
      }
    }
  }

 private:
  // If several attachments want the same key, the attachment that owns it in the kernel keeps it.
  // `place` is the index of the element that is compared with the kernel's.
  void PreferOwner(const nft::Element& present, std::size_t& place) {
    const auto claim = std::ranges::find_if(claims_, [&](std::size_t i) {
      const nft::Element& element = desired_.elements[i];
      return element.owner() == present.owner() && KeyOf(element) == KeyOf(present);
    });
    if (claim != claims_.end() && desired_.elements[place].owner() != present.owner()) {
      presences_[place] = Presence::kSame;
      place = *claim;
    }
  }

  // An element that may stay must name a chain that stays; otherwise it is removed.
  void AddStaying(const nft::Table& table, const nft::Element& present) {
    if (!present.verdict || table.FindChain(present.verdict->chain) != nullptr) {
      return;
    }
    plan_.batch.DeleteElement(table.id, present);
    const auto replacement =
        std::ranges::find_if(desired_.instead_if_kept, [&](const nft::Element& element) {
          return KeyOf(element) == KeyOf(present) && element.owner() == present.owner();
        });
    if (replacement != desired_.instead_if_kept.end()) {
      plan_.batch.AddElement(table.id, *replacement);
    }
  }

  const Tables& tables_;
  const DesiredElements& desired_;
  GoalPlan& plan_;
  std::vector<Presence> presences_;  // one for each of desired_.elements
  std::vector<std::size_t> claims_;  // places of elements whose key an earlier element has
  std::unordered_map<ElementKey, std::size_t, HashOfKey> places_;  // places in desired_.elements
};

void PlanElements(nft::Socket& socket,
                  const Tables& tables,
                  const DesiredElements& desired,
                  GoalPlan& plan) {
  ElementsPlan elements(tables, desired, plan);
  for (const nft::Table& table : tables) {
    // A table that is yet to be made has no elements.
    if (plan.is_new.contains(table.id.family)) {
      continue;
    }
    for (const nft::Set& set : table.sets) {
      if (set.is_dynamic()) {
        continue;  // rules add its elements
      }
      for (const nft::Element& present : socket.Elements(table.id, set.name)) {
        elements.AddPresent(table, present);
      }
    }
  }
  elements.AddWanted();
}

}  // namespace

GoalPlan PlanTables(nft::Socket& socket, const Goal& goal, LeftOver left_over) {
  GoalPlan plan;
  for (const nft::Table& table : goal.tables) {
    PlanTable(socket, table, left_over, plan);
  }
  Append(plan.mismatches, DescribeStaticRules(socket, goal.forward_hooks, plan.batch));
  return plan;
}

GoalPlan PlanAll(nft::Socket& socket, const Goal& goal, const DesiredElements& desired) {
  GoalPlan plan = PlanTables(socket, goal, LeftOver::kRemove);
  for (const nft::Table& table : goal.tables) {
    if (plan.is_new.contains(table.id.family) &&
        std::ranges::count(desired.elements, table.id.family, &nft::Element::family) != 0) {
      const std::string what = Cat("table ", nft::Text(table.id));
      plan.mismatches.push_back(
          {.area = Area::kTable, .text = Cat(what, " is missing"), .part = what});
    }
  }
  PlanElements(socket, goal.tables, desired, plan);
  plan.batch.Append(std::move(plan.removals));
  return plan;
}

}  // namespace nomad_bridge::firewall
