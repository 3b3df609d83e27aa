#include "netlink/nft/batch.h"

#include <utility>

#include "base/text.h"

namespace nomad_bridge::nft {
namespace {

using Action = BatchMessage::Action;

std::string Named(const Element& element) {
  return element.comment.empty()
             ? Cat("an element of ", element.set)
             : Cat("the element of ", element.set, " for ", Quoted(element.owner()));
}

std::string Named(const TableId& table, const std::string& chain) {
  return Cat("chain ", Quoted(chain), " of table ", Text(table));
}

}  // namespace

void Batch::Add(Action action, const TableId& table, std::string label, Object object) {
  messages_.push_back({.action = action,
                       .table = table,
                       .label = std::move(label),
                       .chain = {},
                       .object = std::move(object)});
}

void Batch::AddTable(const TableId& table) {
  Add(Action::kAddTable, table, Cat("add table ", Text(table)));
}

void Batch::DeleteTable(const TableId& table) {
  Add(Action::kDeleteTable, table, Cat("delete table ", Text(table)));
}

void Batch::AddSet(const TableId& table, const Set& set) {
  Add(Action::kAddSet, table, Cat("add set ", Quoted(set.name), " to table ", Text(table)), set);
}

void Batch::AddChain(const TableId& table, const Chain& chain) {
  Add(Action::kAddChain,
      table,
      Cat("add chain ", Quoted(chain.name), " to table ", Text(table)),
      chain);
}

void Batch::FlushChain(const TableId& table, const std::string& chain) {
  Add(Action::kFlushChain, table, Cat("flush ", Named(table, chain)));
  messages_.back().chain = chain;
}

void Batch::DeleteChain(const TableId& table, const std::string& chain) {
  Add(Action::kDeleteChain,
      table,
      Cat("delete ", Named(table, chain)),
      Chain{.name = chain, .hook = {}, .rules = {}});
  messages_.back().chain = chain;
}

void Batch::AppendRule(const TableId& table, const std::string& chain, const Rule& rule) {
  Add(Action::kAppendRule, table, Cat("add a rule to ", Named(table, chain)), rule);
  messages_.back().chain = chain;
}

void Batch::InsertRule(const TableId& table, const std::string& chain, const Rule& rule) {
  AppendRule(table, chain, rule);
  messages_.back().action = Action::kInsertRule;
}

void Batch::DeleteRule(const TableId& table, const std::string& chain, std::uint64_t handle) {
  Add(Action::kDeleteRule, table, Cat("delete a rule of ", Named(table, chain)));
  messages_.back().chain = chain;
  messages_.back().handle = handle;
}

void Batch::AddElement(const TableId& table, const Element& element) {
  Add(Action::kAddElement, table, Cat("add ", Named(element), " to table ", Text(table)), element);
}

void Batch::DeleteElement(const TableId& table, const Element& element) {
  Add(Action::kDeleteElement,
      table,
      Cat("delete ", Named(element), " from table ", Text(table)),
      element);
}

}  // namespace nomad_bridge::nft
