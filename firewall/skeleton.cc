#include "firewall/skeleton.h"

#include <algorithm>
#include <optional>

#include "base/text.h"

namespace nomad_bridge::firewall {
namespace {

void AddRules(const NftTable& table, const NftChain& chain, NftBatch& batch) {
  for (const NftRule& rule : chain.rules) {
    batch.AppendRule(table.id, chain.name, rule);
  }
}

void AddAll(const NftTable& table, NftBatch& batch) {
  batch.AddTable(table.id);
  for (const NftSet& set : table.sets) {
    batch.AddSet(table.id, set);
  }
  // All chains before any rule: rules name chains.
  for (const NftChain& chain : table.chains) {
    batch.AddChain(table.id, chain);
  }
  for (const NftChain& chain : table.chains) {
    AddRules(table, chain, batch);
  }
}

// What the kernel has of our table.
struct Present {
  NftTable table;                               // its sets alone
  std::vector<std::optional<NftChain>> chains;  // in the order of our table's
};

Present Read(NftSocket& socket, const NftTable& table) {
  Present present{.table = {.id = table.id, .sets = socket.Sets(table.id), .chains = {}},
                  .chains = {}};
  for (const NftChain& chain : table.chains) {
    present.chains.push_back(socket.FindChain(table.id, chain.name));
  }
  return present;
}

// A chain's policy can be changed in place; where it hangs cannot.
bool SamePlace(std::optional<NftHook> present, const std::optional<NftHook>& wanted) {
  if (present && wanted) {
    present->drops = wanted->drops;
  }
  return present == wanted;
}

bool HasSameShape(const Present& present, const NftTable& table) {
  const bool sets = std::all_of(table.sets.begin(), table.sets.end(), [&](const NftSet& wanted) {
    const NftSet* const set = present.table.FindSet(wanted.name);
    return set == nullptr || *set == wanted;
  });
  bool chains = true;
  for (std::size_t i = 0; i < table.chains.size(); ++i) {
    const std::optional<NftChain>& chain = present.chains[i];
    chains = chains && (!chain || SamePlace(chain->hook, table.chains[i].hook));
  }
  return sets && chains;
}

bool HasSameRules(NftSocket& socket, const NftTable& table, const NftChain& chain) {
  const std::vector<NftKernelRule> present = socket.Rules(table.id, chain.name);
  return std::equal(present.begin(),
                    present.end(),
                    chain.rules.begin(),
                    chain.rules.end(),
                    [](const NftKernelRule& kernel, const NftRule& rule) {
                      return kernel.expressions == ExpressionTexts(rule);
                    });
}

}  // namespace

SkeletonPlan DescribeSkeleton(NftSocket& socket, const NftTable& table, NftBatch& batch) {
  if (!socket.HasTable(table.id)) {
    AddAll(table, batch);
    return {.made_anew = true, .phrases = {}};
  }
  const Present present = Read(socket, table);
  if (!HasSameShape(present, table)) {
    batch.DeleteTable(table.id);
    AddAll(table, batch);
    return {.made_anew = true, .phrases = {}};
  }
  SkeletonPlan plan;
  for (const NftSet& set : table.sets) {
    if (present.table.FindSet(set.name) == nullptr) {
      batch.AddSet(table.id, set);
      plan.phrases.push_back(Cat("set ", set.name, " in table ", Text(table.id)));
    }
  }
  std::vector<const NftChain*> different;
  for (std::size_t i = 0; i < table.chains.size(); ++i) {
    const NftChain& chain = table.chains[i];
    const std::optional<NftChain>& found = present.chains[i];
    if (!found || found->hook != chain.hook) {
      batch.AddChain(table.id, chain);
    }
    if (!found || found->hook != chain.hook || !HasSameRules(socket, table, chain)) {
      different.push_back(&chain);
      plan.phrases.push_back(Cat("chain ", chain.name, " in table ", Text(table.id)));
    }
  }
  for (const NftChain* const chain : different) {
    batch.FlushChain(table.id, chain->name);
    AddRules(table, *chain, batch);
  }
  return plan;
}

}  // namespace nomad_bridge::firewall
