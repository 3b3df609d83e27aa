// The part of our tables that does not depend on attachments: sets, chains and rules.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/text.h"
#include "firewall/goal_plan.h"

namespace nomad_bridge::firewall {
namespace {

// What the kernel has of our table.
struct Present {
  nft::Table table;  // its sets, and its chains without their rules
  std::map<std::string, std::vector<nft::KernelRule>> rules;  // by chain
};

Present Read(nft::Socket& socket, const nft::TableId& id) {
  Present present{.table = {.id = id, .sets = socket.Sets(id)}};
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

// A mismatch in the table `id`, unless all of that is new: "chain forward in table ... was changed".
void Note(GoalPlan& plan, const std::string& what, const nft::TableId& id, const char* how) {
  if (!plan.is_new.contains(id.family)) {
    plan.mismatches.push_back(
        {Mismatch::Area::kTable, "", Format("{} in table {} {}", what, nft::Text(id), how)});
  }
}

void NoteLeftOver(GoalPlan& plan, const std::string& what, const nft::TableId& id) {
  Note(plan, what, id, "is left over");
  plan.mismatches.back().area = Mismatch::Area::kLeftOver;
}

void PlanSets(const nft::Table& present, const nft::Table& table, GoalPlan& plan) {
  for (const nft::Set& set : table.sets) {
    if (present.FindSet(set.name) == nullptr) {
      plan.batch.AddSet(table.id, set);
      plan.lacks_elements = true;
      Note(plan, Cat("set ", set.name), table.id, "is missing");
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
  // All rules first, for they name sets and chains; then the sets, whose elements may name chains.
  for (const std::string& chain : chains) {
    plan.batch.FlushChain(table.id, chain);
  }
  for (const nft::Set& set : present.sets) {
    if (!set.is_anonymous() && table.FindSet(set.name) == nullptr) {
      plan.batch.DeleteSet(table.id, set.name);
      NoteLeftOver(plan, Cat("set ", set.name), table.id);
    }
  }
  for (const std::string& chain : chains) {
    plan.batch.DeleteChain(table.id, chain);
    NoteLeftOver(plan, Cat("chain ", chain), table.id);
  }
}

}  // namespace

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
        {Mismatch::Area::kTable, "", Format("table {} is dormant", nft::Text(table.id))});
  }
  PlanSets(present.table, table, plan);
  PlanChains(present, table, plan);
  if (left_over == LeftOver::kRemove) {
    PlanRemovals(present.table, table, plan);
  }
}

}  // namespace nomad_bridge::firewall
