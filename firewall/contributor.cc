#include "firewall/contributor.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/list.h"
#include "base/text.h"
#include "firewall/table.h"

namespace nomad_bridge::firewall {
namespace {

std::vector<nft::Type> ForFamily(std::vector<nft::Type> fields, Family family) {
  std::ranges::replace(fields, nft::Type::kIpv4Addr, AddressType(family));
  return fields;
}

nft::Table& TableIn(Tables& tables, const nft::TableId& id) {
  const auto found = std::ranges::find(tables, id, &nft::Table::id);
  return found != tables.end() ? *found : tables.emplace_back(nft::Table{.id = id});
}

void AddCounter(const std::string& name, nft::Table& table) {
  if (std::ranges::find(table.counters, name, &nft::Counter::name) == table.counters.end()) {
    table.counters.push_back({.name = name});
  }
}

}  // namespace

std::vector<nft::Set> SetsOf(const SetRow& row) {
  const bool is_per_family =
      Contains(row.key, nft::Type::kIpv4Addr) || Contains(row.data, nft::Type::kIpv4Addr);
  std::vector<nft::Set> sets;
  for (const Family family : std::span(kFamilies).first(is_per_family ? 2 : 1)) {
    sets.push_back({.name = is_per_family ? SetName(row.noun, family) : Cat(row.noun),
                    .key = ForFamily(row.key, family),
                    .data = ForFamily(row.data, family),
                    .flags = row.flags,
                    .size = row.size,
                    .timeout_ms = row.timeout_ms});
  }
  return sets;
}

std::vector<OwnSet> SetsOf(const Contributors& contributors) {
  std::vector<OwnSet> sets;
  for (const Contributor* const contributor : contributors) {
    for (const SetRow& row : contributor->sets()) {
      for (nft::Set& set : SetsOf(row)) {
        sets.push_back({.table = contributor->table, .set = std::move(set), .role = row.role});
      }
    }
  }
  return sets;
}

Tables Assemble(const Contributors& contributors, int accept_mark_bit) {
  Tables tables;
  for (const Contributor* const contributor : contributors) {
    nft::Table& table = TableIn(tables, TableId(contributor->table));
    for (OwnSet& own : SetsOf({contributor})) {
      table.sets.push_back(std::move(own.set));
    }
    for (const DroppingChain& each : contributor->dropping) {
      AddCounter(std::string(each.key), table);
    }
    for (nft::Chain& chain : contributor->chains(accept_mark_bit)) {
      const auto earlier = std::ranges::find(table.chains, chain.name, &nft::Chain::name);
      if (earlier == table.chains.end()) {
        table.chains.push_back(std::move(chain));
      } else {
        Append(earlier->rules, std::move(chain.rules));
      }
    }
  }
  return tables;
}

}  // namespace nomad_bridge::firewall
