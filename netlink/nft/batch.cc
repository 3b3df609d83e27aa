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

std::string Named(const BatchMessage& message) {
  if (const auto* const set = std::get_if<Set>(&message.object)) {
    return Format("set '{}'", set->name);
  }
  if (const auto* const counter = std::get_if<Counter>(&message.object)) {
    return Format("counter '{}'", counter->name);
  }
  if (const auto* const element = std::get_if<Element>(&message.object)) {
    return Named(*element);
  }
  const auto* const chain = std::get_if<Chain>(&message.object);
  return Format("chain '{}'", chain != nullptr ? chain->name : message.chain);
}

}  // namespace

std::string Text(const BatchMessage& message) {
  const std::string table = Text(message.table);
  switch (message.type) {
    case NFT_MSG_NEWTABLE:
      return Cat("add table ", table);
    case NFT_MSG_DELTABLE:
      return Cat("delete table ", table);
    case NFT_MSG_NEWRULE:
      return Format("add a rule to {} of table {}", Named(message), table);
    case NFT_MSG_DELRULE:
      return Format("{} {} of table {}",
                    message.handle ? "delete a rule of" : "flush",
                    Named(message),
                    table);
    case NFT_MSG_DELSETELEM:
      return Format("delete {} from table {}", Named(message), table);
    case NFT_MSG_DELSET:
    case NFT_MSG_DELOBJ:
    case NFT_MSG_DELCHAIN:
      return Format("delete {} of table {}", Named(message), table);
    default:
      return Format("add {} to table {}", Named(message), table);
  }
}

BatchMessage& Batch::Add(int type, int flags, const TableId& table) {
  return messages_.emplace_back(BatchMessage{.type = type, .flags = flags, .table = table});
}

void Batch::AddTable(const TableId& table, std::uint32_t flags) {
  Add(NFT_MSG_NEWTABLE, NLM_F_CREATE, table).table_flags = flags;
}

void Batch::DeleteTable(const TableId& table) {
  Add(NFT_MSG_DELTABLE, 0, table);
}

void Batch::AddSet(const TableId& table, const Set& set) {
  Add(NFT_MSG_NEWSET, NLM_F_CREATE, table).object = set;
}

void Batch::DeleteSet(const TableId& table, const std::string& set) {
  Add(NFT_MSG_DELSET, 0, table).object = Set{.name = set};
}

void Batch::AddCounter(const TableId& table, const Counter& counter) {
  Add(NFT_MSG_NEWOBJ, NLM_F_CREATE, table).object = counter;
}

void Batch::DeleteCounter(const TableId& table, const std::string& counter) {
  Add(NFT_MSG_DELOBJ, 0, table).object = Counter{.name = counter};
}

void Batch::AddChain(const TableId& table, const Chain& chain) {
  Add(NFT_MSG_NEWCHAIN, NLM_F_CREATE, table).object = chain;
}

void Batch::FlushChain(const TableId& table, const std::string& chain) {
  Add(NFT_MSG_DELRULE, 0, table).chain = chain;
}

void Batch::DeleteChain(const TableId& table, const std::string& chain) {
  Add(NFT_MSG_DELCHAIN, 0, table).object = Chain{.name = chain};
}

void Batch::AppendRule(const TableId& table, const std::string& chain, const Rule& rule) {
  InsertRule(table, chain, rule);
  messages_.back().flags |= NLM_F_APPEND;
}

void Batch::InsertRule(const TableId& table, const std::string& chain, const Rule& rule) {
  BatchMessage& message = Add(NFT_MSG_NEWRULE, NLM_F_CREATE, table);
  message.chain = chain;
  message.object = rule;
}

void Batch::DeleteRule(const TableId& table, const std::string& chain, std::uint64_t handle) {
  BatchMessage& message = Add(NFT_MSG_DELRULE, 0, table);
  message.chain = chain;
  message.handle = handle;
}

void Batch::AddElement(const TableId& table, const Element& element) {
  const int flags = element.comment.empty() ? NLM_F_CREATE : NLM_F_CREATE | NLM_F_EXCL;
  Add(NFT_MSG_NEWSETELEM, flags, table).object = element;
}

void Batch::DeleteElement(const TableId& table, const Element& element) {
  Add(NFT_MSG_DELSETELEM, 0, table).object = element;
}

void Batch::Append(Batch more) {
  nomad_bridge::Append(messages_, std::move(more.messages_));
}

}  // namespace nomad_bridge::nft
