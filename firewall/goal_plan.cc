#include "firewall/goal_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "firewall/planned_elements.h"
#include "firewall/static_rules.h"
#include "firewall/table.h"

namespace nomad_bridge::firewall {
namespace {

using Area = Mismatch::Area;

// All in the kernel, but for tables that are yet to be made.
std::vector<nft::Element> ElementsIn(nft::Socket& socket,
                                     const Tables& tables,
                                     const std::set<nft::TableFamily>& is_new) {
  std::vector<nft::Element> elements;
  for (const nft::Table& table : tables) {
    for (const nft::Set& set : table.sets) {
      if (!is_new.contains(table.id.family)) {
        Append(elements, socket.Elements(table.id, set.name));
      }
    }
  }
  return elements;
}

void PlanMissing(const Tables& tables,
                 const nft::Element& element,
                 Presence presence,
                 GoalPlan& plan) {
  plan.batch.AddElement(TableOf(element), element);
  if (!plan.is_new.contains(element.family)) {
    plan.mismatches.push_back(MismatchOf(tables, element, presence));
  }
}

// Adds to `plan` what makes the elements in the kernel those of `desired`.
void PlanElements(nft::Socket& socket,
                  const Tables& tables,
                  const DesiredElements& desired,
                  GoalPlan& plan) {
  std::map<ElementKey, const nft::Element*> missing;
  std::set<ElementKey> changed;
  for (const nft::Element& element : desired.elements) {
    missing.try_emplace(KeyOf(element), &element);
  }
  const auto compare = [&](const nft::Element& present) {
    const auto found = missing.find(KeyOf(present));
    const nft::Element* const wanted = found == missing.end() ? nullptr : found->second;
    const bool is_same = wanted && (IsShared(*wanted) || present == *wanted);
    const bool is_own = wanted && present.owner() == wanted->owner();
    if (is_same || (!is_own && desired.is_explained(present))) {
      missing.erase(KeyOf(present));
      return;
    }
    plan.batch.DeleteElement(TableOf(present), present);
    if (wanted) {
      changed.insert(KeyOf(present));
    } else {
      plan.mismatches.push_back({Area::kLeftOver,
                                 std::string(present.owner()),
                                 Cat(Name(tables, present), " has no owner")});
    }
  };
  std::ranges::for_each(ElementsIn(socket, tables, plan.is_new), compare);
  for (const nft::Element& element : desired.elements) {
    if (missing.erase(KeyOf(element)) != 0) {
      PlanMissing(tables,
                  element,
                  changed.contains(KeyOf(element)) ? Presence::kDifferent : Presence::kMissing,
                  plan);
    }
  }
}

}  // namespace

GoalPlan PlanTables(nft::Socket& socket, const Goal& goal, LeftOver left_over) {
  GoalPlan plan;
  for (const nft::Table& table : goal.tables) {
    PlanTable(socket, table, left_over, plan);
  }
  // For the others alone first: what only the new hook needs is not reported as repaired.
  std::vector<ForwardHook> hooks = goal.forward_hooks;
  nft::Batch of_others;
  for (std::string& text :
       DescribeStaticRules(socket, hooks, goal.new_forward_hook ? of_others : plan.batch)) {
    plan.mismatches.push_back({Area::kStaticRules, "", std::move(text)});
  }
  if (goal.new_forward_hook) {
    hooks.push_back(*goal.new_forward_hook);
    static_cast<void>(DescribeStaticRules(socket, hooks, plan.batch));
  }
  return plan;
}

GoalPlan PlanAll(nft::Socket& socket, const Goal& goal, const DesiredElements& desired) {
  GoalPlan plan = PlanTables(socket, goal, LeftOver::kRemove);
  for (const nft::Table& table : goal.tables) {
    if (plan.is_new.contains(table.id.family) &&
        std::ranges::count(desired.elements, table.id.family, &nft::Element::family) != 0) {
      plan.mismatches.push_back(
          {Area::kTable, "", Format("table {} is missing", nft::Text(table.id))});
    }
  }
  PlanElements(socket, goal.tables, desired, plan);
  return plan;
}

}  // namespace nomad_bridge::firewall
