#include "firewall/skeleton.h"

#include <algorithm>
#include <optional>

#include "base/text.h"

namespace nomad_bridge::firewall {
namespace {

void AddRules(const nft::Table& table, const nft::Chain& chain, nft::Batch& batch) {
  for (const nft::Rule& rule : chain.rules) {
    batch.AppendRule(table.id, chain.name, rule);
  }
}

void AddAll(const nft::Table& table, nft::Batch& batch) {
  batch.AddTable(table.id);
  for (const nft::Set& set : table.sets) {
    batch.AddSet(table.id, set);
  }
  // All chains before any rule: rules name chains.
  for (const nft::Chain& chain : table.chains) {
    batch.AddChain(table.id, chain);
  }
  for (const nft::Chain& chain : table.chains) {
    AddRules(table, chain, batch);
  }
}

// What the kernel has of our table.
struct Present {
  nft::Table table;                               // its sets alone
  std::vector<std::optional<nft::Chain>> chains;  // in the order of our table's
};

Present Read(nft::Socket& socket, const nft::Table& table) {
  Present present{.table = {.id = table.id, .sets = socket.Sets(table.id)}};
  for (const nft::Chain& chain : table.chains) {
    present.chains.push_back(socket.FindChain(table.id, chain.name));
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

bool HasSameShape(const Present& present, const nft::Table& table) {
  const bool sets = std::ranges::all_of(table.sets, [&](const nft::Set& wanted) {
    const nft::Set* const set = present.table.FindSet(wanted.name);
    return set == nullptr || *set == wanted;
  });
  bool chains = true;
  for (std::size_t i = 0; i < table.chains.size(); ++i) {
    const std::optional<nft::Chain>& chain = present.chains[i];
    chains = chains && (!chain || SamePlace(chain->hook, table.chains[i].hook));
  }
  return sets && chains;
}

bool HasSameRules(nft::Socket& socket, const nft::Table& table, const nft::Chain& chain) {
  return std::ranges::equal(socket.Rules(table.id, chain.name),
                            chain.rules,
                            std::ranges::equal_to(),
                            &nft::KernelRule::expressions,
                            &nft::ExpressionTexts);
}

std::vector<std::string> AddMissingSets(const Present& present,
                                        const nft::Table& table,
                                        nft::Batch& batch) {
  std::vector<std::string> mismatches;
  for (const nft::Set& set : table.sets) {
    if (present.table.FindSet(set.name) == nullptr) {
      batch.AddSet(table.id, set);
      mismatches.push_back(Format("set {} in table {}", set.name, nft::Text(table.id)));
    }
  }
  return mismatches;
}

}  // namespace

SkeletonPlan DescribeSkeleton(nft::Socket& socket, const nft::Table& table, nft::Batch& batch) {
  const std::optional<nft::KernelTable> found_table = socket.FindTable(table.id);
  const Present present = found_table ? Read(socket, table) : Present();
  if (!found_table || !HasSameShape(present, table)) {
    if (found_table) {
      batch.DeleteTable(table.id);
    }
    AddAll(table, batch);
    return {.is_new = true, .lacks_elements = true};
  }
  SkeletonPlan plan{.mismatches = AddMissingSets(present, table, batch)};
  plan.lacks_elements = !plan.mismatches.empty();
  if (found_table->is_dormant) {
    batch.AddTable(table.id);
    plan.mismatches.push_back(Format("table {}, which was dormant", nft::Text(table.id)));
  }
  std::vector<const nft::Chain*> different;
  for (std::size_t i = 0; i < table.chains.size(); ++i) {
    const nft::Chain& chain = table.chains[i];
    const std::optional<nft::Chain>& found = present.chains[i];
    const bool is_there = found && found->hook == chain.hook;
    if (!is_there) {
      batch.AddChain(table.id, chain);
    }
    if (!is_there || !HasSameRules(socket, table, chain)) {
      different.push_back(&chain);
      plan.mismatches.push_back(Format("chain {} in table {}", chain.name, nft::Text(table.id)));
    }
  }
  for (const nft::Chain* const chain : different) {
    batch.FlushChain(table.id, chain->name);
    AddRules(table, *chain, batch);
  }
  return plan;
}

std::vector<std::string> DescribeRemovals(nft::Socket& socket,
                                          const nft::Table& table,
                                          nft::Batch& batch) {
  std::vector<std::string> mismatches;
  const auto removed = [&](const char* kind, const std::string& name) {
    mismatches.push_back(
        Format("the left-over {} {} in table {}", kind, name, nft::Text(table.id)));
  };
  std::vector<std::string> chains;
  for (nft::Socket::TableChain& found : socket.Chains()) {
    if (found.table == table.id &&
        std::ranges::find(table.chains, found.chain.name, &nft::Chain::name) ==
            table.chains.end()) {
      chains.push_back(std::move(found.chain.name));
    }
  }
  for (const std::string& chain : chains) {
    batch.FlushChain(table.id, chain);  // all of them first: they may jump to each other
  }
  for (const std::string& chain : chains) {
    batch.DeleteChain(table.id, chain);
    removed("chain", chain);
  }
  for (const nft::Set& set : socket.Sets(table.id)) {
    if (!set.is_anonymous() && !table.FindSet(set.name)) {
      batch.DeleteSet(table.id, set.name);
      removed("set", set.name);
    }
  }
  return mismatches;
}

}  // namespace nomad_bridge::firewall
