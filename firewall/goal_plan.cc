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

// One of `desired`, which the kernel has not, or with another value.
struct Wanted {
  const nft::Element* element;
  Presence presence = Presence::kMissing;
};

using WantedElements = std::map<ElementKey, Wanted>;

// An element in the kernel: it stays, and leaves `wanted`, or goes.
void PlanPresent(const Tables& tables,
                 const nft::Element& present,
                 const DesiredElements& desired,
                 WantedElements& wanted,
                 GoalPlan& plan) {
  const auto found = wanted.find(KeyOf(present));
  const nft::Element* const element = found == wanted.end() ? nullptr : found->second.element;
  const bool is_same = element && (IsShared(*element) || present == *element);
  const bool is_own = element && present.owner() == element->owner();
  if (is_same || (!is_own && desired.is_explained(present))) {
    wanted.erase(KeyOf(present));
    return;
  }
  plan.batch.DeleteElement(TableOf(present), present);
  if (element) {
    found->second.presence = Presence::kDifferent;
  } else {
    plan.mismatches.push_back({Area::kLeftOver,
                               std::string(present.owner()),
                               Cat(Name(tables, present), " has no owner")});
  }
}

// Adds to `plan` what makes the elements in the kernel those of `desired`.
void PlanElements(nft::Socket& socket,
                  const Tables& tables,
                  const DesiredElements& desired,
                  GoalPlan& plan) {
  WantedElements wanted;
  for (const nft::Element& element : desired.elements) {
    wanted.try_emplace(KeyOf(element), Wanted{&element});
  }
  for (const nft::Element& present : ElementsIn(socket, tables, plan.is_new)) {
    PlanPresent(tables, present, desired, wanted, plan);
  }
  // In the order in which they are desired: an element comes before those that name it.
  for (const nft::Element& element : desired.elements) {
    const auto found = wanted.find(KeyOf(element));
    if (found != wanted.end() && found->second.element == &element) {
      PlanMissing(tables, element, found->second.presence, plan);
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
