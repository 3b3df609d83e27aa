#include "netlink/nft/batch.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>

#include "base/text.h"

namespace nomad_bridge::nft {
namespace {

std::string Named(const Element& element) {
  return element.comment.empty()
             ? Cat("an element of ", element.set)
             : Format("the element of {} for '{}'", element.set, element.owner());
}

std::string Named(const TableId& table, const std::string& chain) {
  return Format("chain '{}' of table {}", chain, Text(table));
}

}  // namespace

void Batch::AddTable(const TableId& table) {
  Add({.type = NFT_MSG_NEWTABLE,
       .flags = NLM_F_CREATE,
       .table = table,
       .label = Cat("add table ", Text(table))});
}

void Batch::DeleteTable(const TableId& table) {
  Add({.type = NFT_MSG_DELTABLE, .table = table, .label = Cat("delete table ", Text(table))});
}

void Batch::AddSet(const TableId& table, const Set& set) {
  Add({.type = NFT_MSG_NEWSET,
       .flags = NLM_F_CREATE,
       .table = table,
       .label = Format("add set '{}' to table {}", set.name, Text(table)),
       .object = set});
}

void Batch::DeleteSet(const TableId& table, const std::string& set) {
  Add({.type = NFT_MSG_DELSET,
       .table = table,
       .label = Format("delete set '{}' of table {}", set, Text(table)),
       .object = Set{.name = set}});
}

void Batch::AddChain(const TableId& table, const Chain& chain) {
  Add({.type = NFT_MSG_NEWCHAIN,
       .flags = NLM_F_CREATE,
       .table = table,
       .label = Format("add chain '{}' to table {}", chain.name, Text(table)),
       .object = chain});
}

void Batch::FlushChain(const TableId& table, const std::string& chain) {
  Add({.type = NFT_MSG_DELRULE,
       .table = table,
       .label = Cat("flush ", Named(table, chain)),
       .chain = chain});
}

void Batch::DeleteChain(const TableId& table, const std::string& chain) {
  Add({.type = NFT_MSG_DELCHAIN,
       .table = table,
       .label = Cat("delete ", Named(table, chain)),
       .object = Chain{.name = chain}});
}

void Batch::AppendRule(const TableId& table, const std::string& chain, const Rule& rule) {
  InsertRule(table, chain, rule);
  messages_.back().flags |= NLM_F_APPEND;
}

void Batch::InsertRule(const TableId& table, const std::string& chain, const Rule& rule) {
  Add({.type = NFT_MSG_NEWRULE,
       .flags = NLM_F_CREATE,
       .table = table,
       .label = Cat("add a rule to ", Named(table, chain)),
       .chain = chain,
       .object = rule});
}

void Batch::DeleteRule(const TableId& table, const std::string& chain, std::uint64_t handle) {
  Add({.type = NFT_MSG_DELRULE,
       .table = table,
       .label = Cat("delete a rule of ", Named(table, chain)),
       .chain = chain,
       .handle = handle});
}

void Batch::AddElement(const TableId& table, const Element& element) {
  Add({.type = NFT_MSG_NEWSETELEM,
       .flags = element.comment.empty() ? NLM_F_CREATE : NLM_F_CREATE | NLM_F_EXCL,
       .table = table,
       .label = Format("add {} to table {}", Named(element), Text(table)),
       .object = element});
}

void Batch::DeleteElement(const TableId& table, const Element& element) {
  Add({.type = NFT_MSG_DELSETELEM,
       .table = table,
       .label = Format("delete {} from table {}", Named(element), Text(table)),
       .object = element});
}

}  // namespace nomad_bridge::nft
