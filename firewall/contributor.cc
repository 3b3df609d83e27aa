#include "firewall/contributor.h"

#include <algorithm>
#include <utility>

#include "base/list.h"
#include "firewall/table.h"

namespace nomad_bridge::firewall {
namespace {

std::vector<nft::Type> ForFamily(std::vector<nft::Type> fields, Family family) {
  std::ranges::replace(fields, nft::Type::kIpv4Addr, AddressType(family));
  return fields;
}

nft::Table& TableIn(Tables& tables, nft::TableFamily family) {
  const nft::TableId id = {family, TableId().name};
  const auto found = std::ranges::find(tables, id, &nft::Table::id);
  return found != tables.end() ? *found : tables.emplace_back(nft::Table{.id = id});
}

}  // namespace

std::vector<OwnSet> SetsOf(const Contributors& contributors) {
  std::vector<OwnSet> sets;
  for (const Contributor* const contributor : contributors) {
    for (const SetRow& row : contributor->sets()) {
      const auto add = [&](std::string name, Family family) {
        sets.push_back({.table = contributor->table,
                        .set = {.name = std::move(name),
                                .key = ForFamily(row.key, family),
                                .data = ForFamily(row.data, family)},
                        .role = row.role});
      };
      if (!Contains(row.key, nft::Type::kIpv4Addr) && !Contains(row.data, nft::Type::kIpv4Addr)) {
        add(std::string(row.noun), Family::kIpv4);
        continue;
      }
      for (const Family family : kFamilies) {
        add(SetName(row.noun, family), family);
      }
    }
  }
  return sets;
}

Tables Assemble(const Contributors& contributors, int accept_mark_bit) {
  Tables tables;
  for (OwnSet& own : SetsOf(contributors)) {
    TableIn(tables, own.table).sets.push_back(std::move(own.set));
  }
  for (const Contributor* const contributor : contributors) {
    std::vector<nft::Chain>& chains = TableIn(tables, contributor->table).chains;
    for (nft::Chain& chain : contributor->chains(accept_mark_bit)) {
      const auto earlier = std::ranges::find(chains, chain.name, &nft::Chain::name);
      if (earlier == chains.end()) {
        chains.push_back(std::move(chain));
      } else {
        Append(earlier->rules, std::move(chain.rules));
      }
    }
  }
  return tables;
}

}  // namespace nomad_bridge::firewall
