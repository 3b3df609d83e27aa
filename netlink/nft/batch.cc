#include "netlink/nft/batch.h"

#include <utility>

#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>

#include "base/list.h"
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

BatchMessage& Batch::Add(int type, int flags, const TableId& table, std::string label) {
  return messages_.emplace_back(
      BatchMessage{.type = type, .flags = flags, .table = table, .label = std::move(label)});
}

void Batch::AddTable(const TableId& table, std::uint32_t flags) {
  Add(NFT_MSG_NEWTABLE, NLM_F_CREATE, table, Cat("add table ", Text(table))).table_flags = flags;
}

void Batch::DeleteTable(const TableId& table) {
  Add(NFT_MSG_DELTABLE, 0, table, Cat("delete table ", Text(table)));
}

void Batch::AddSet(const TableId& table, const Set& set) {
  const std::string label = Format("add set '{}' to table {}", set.name, Text(table));
  Add(NFT_MSG_NEWSET, NLM_F_CREATE, table, label).object = set;
}

void Batch::DeleteSet(const TableId& table, const std::string& set) {
  const std::string label = Format("delete set '{}' of table {}", set, Text(table));
  Add(NFT_MSG_DELSET, 0, table, label).object = Set{.name = set};
}

void Batch::AddCounter(const TableId& table, const Counter& counter) {
  const std::string label = Format("add counter '{}' to table {}", counter.name, Text(table));
  Add(NFT_MSG_NEWOBJ, NLM_F_CREATE, table, label).object = counter;
}

void Batch::DeleteCounter(const TableId& table, const std::string& counter) {
  const std::string label = Format("delete counter '{}' of table {}", counter, Text(table));
  Add(NFT_MSG_DELOBJ, 0, table, label).object = Counter{.name = counter};
}

void Batch::AddChain(const TableId& table, const Chain& chain) {
  const std::string label = Format("add chain '{}' to table {}", chain.name, Text(table));
  Add(NFT_MSG_NEWCHAIN, NLM_F_CREATE, table, label).object = chain;
}

void Batch::FlushChain(const TableId& table, const std::string& chain) {
  Add(NFT_MSG_DELRULE, 0, table, Cat("flush ", Named(table, chain))).chain = chain;
}

void Batch::DeleteChain(const TableId& table, const std::string& chain) {
  const std::string label = Cat("delete ", Named(table, chain));
  Add(NFT_MSG_DELCHAIN, 0, table, label).object = Chain{.name = chain};
}

void Batch::AppendRule(const TableId& table, const std::string& chain, const Rule& rule) {
  InsertRule(table, chain, rule);
  messages_.back().flags |= NLM_F_APPEND;
}

void Batch::InsertRule(const TableId& table, const std::string& chain, const Rule& rule) {
  const std::string label = Cat("add a rule to ", Named(table, chain));
  BatchMessage& message = Add(NFT_MSG_NEWRULE, NLM_F_CREATE, table, label);
  message.chain = chain;
  message.object = rule;
}

void Batch::DeleteRule(const TableId& table, const std::string& chain, std::uint64_t handle) {
  const std::string label = Cat("delete a rule of ", Named(table, chain));
  BatchMessage& message = Add(NFT_MSG_DELRULE, 0, table, label);
  message.chain = chain;
  message.handle = handle;
}

void Batch::AddElement(const TableId& table, const Element& element) {
  const int flags = element.comment.empty() ? NLM_F_CREATE : NLM_F_CREATE | NLM_F_EXCL;
  const std::string label = Format("add {} to table {}", Named(element), Text(table));
  Add(NFT_MSG_NEWSETELEM, flags, table, label).object = element;
}

void Batch::DeleteElement(const TableId& table, const Element& element) {
  const std::string label = Format("delete {} from table {}", Named(element), Text(table));
  Add(NFT_MSG_DELSETELEM, 0, table, label).object = element;
}

void Batch::Append(Batch more) {
  nomad_bridge::Append(messages_, std::move(more.messages_));
}

}  // namespace nomad_bridge::nft
