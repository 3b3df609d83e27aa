#include "netlink/nft/batch.h"

#include <array>
#include <cstdio>

#include "base/text.h"
#include "netlink/nft/encode.h"

namespace nomad_bridge::nft {
namespace {

using Action = BatchMessage::Action;

std::string Named(const Element& element) {
  return element.comment.empty()
             ? Cat("an element of ", element.set)
             : Cat("the element of ", element.set, " for ", Quoted(element.owner()));
}

// What libnftnl prints of `object` through its `print` (an snprintf).
template <typename T, typename Print>
std::string Printed(const T& object, Print print) {
  std::array<char, 8192> buffer{};
  print(buffer.data(), buffer.size(), &object, NFTNL_OUTPUT_DEFAULT, 0);
  return buffer.data();
}

std::string ObjectText(const BatchMessage& message) {
  if (const auto* const set = std::get_if<Set>(&message.object)) {
    return Printed(*Encode(message.table, *set, 0), nftnl_set_snprintf);
  }
  if (const auto* const chain = std::get_if<Chain>(&message.object)) {
    return Printed(*Encode(message.table, *chain), nftnl_chain_snprintf);
  }
  if (const auto* const rule = std::get_if<Rule>(&message.object)) {
    return Printed(*Encode(message.table, message.chain, *rule), nftnl_rule_snprintf);
  }
  if (const auto* const element = std::get_if<Element>(&message.object)) {
    return Printed(*Encode(message.table, *element), nftnl_set_snprintf);
  }
  return {};
}

}  // namespace

void Batch::AddTable(const TableId& table) {
  messages_.push_back({.action = Action::kAddTable,
                       .table = table,
                       .label = Cat("add table ", nft::Text(table)),
                       .chain = {},
                       .object = {}});
}

void Batch::DeleteTable(const TableId& table) {
  messages_.push_back({.action = Action::kDeleteTable,
                       .table = table,
                       .label = Cat("delete table ", nft::Text(table)),
                       .chain = {},
                       .object = {}});
}

void Batch::AddSet(const TableId& table, const Set& set) {
  messages_.push_back({.action = Action::kAddSet,
                       .table = table,
                       .label = Cat("add set ", Quoted(set.name), " to table ", nft::Text(table)),
                       .chain = {},
                       .object = set});
}

void Batch::AddChain(const TableId& table, const Chain& chain) {
  messages_.push_back(
      {.action = Action::kAddChain,
       .table = table,
       .label = Cat("add chain ", Quoted(chain.name), " to table ", nft::Text(table)),
       .chain = {},
       .object = chain});
}

void Batch::FlushChain(const TableId& table, const std::string& chain) {
  messages_.push_back({.action = Action::kFlushChain,
                       .table = table,
                       .label = Cat("flush chain ", Quoted(chain), " of table ", nft::Text(table)),
                       .chain = chain,
                       .object = {}});
}

void Batch::DeleteChain(const TableId& table, const std::string& chain) {
  messages_.push_back({.action = Action::kDeleteChain,
                       .table = table,
                       .label = Cat("delete chain ", Quoted(chain), " of table ", nft::Text(table)),
                       .chain = chain,
                       .object = Chain{.name = chain, .hook = {}, .rules = {}}});
}

void Batch::AppendRule(const TableId& table, const std::string& chain, const Rule& rule) {
  messages_.push_back(
      {.action = Action::kAppendRule,
       .table = table,
       .label = Cat("add a rule to chain ", Quoted(chain), " of table ", nft::Text(table)),
       .chain = chain,
       .object = rule});
}

void Batch::InsertRule(const TableId& table, const std::string& chain, const Rule& rule) {
  AppendRule(table, chain, rule);
  messages_.back().action = Action::kInsertRule;
}

void Batch::DeleteRule(const TableId& table, const std::string& chain, std::uint64_t handle) {
  messages_.push_back(
      {.action = Action::kDeleteRule,
       .table = table,
       .label = Cat("delete a rule of chain ", Quoted(chain), " of table ", nft::Text(table)),
       .chain = chain,
       .handle = handle,
       .object = {}});
}

void Batch::AddElement(const TableId& table, const Element& element) {
  messages_.push_back({.action = Action::kAddElement,
                       .table = table,
                       .label = Cat("add ", Named(element), " to table ", nft::Text(table)),
                       .chain = {},
                       .object = element});
}

void Batch::DeleteElement(const TableId& table, const Element& element) {
  messages_.push_back({.action = Action::kDeleteElement,
                       .table = table,
                       .label = Cat("delete ", Named(element), " from table ", nft::Text(table)),
                       .chain = {},
                       .object = element});
}

std::string Batch::Text() const {
  std::string text;
  for (const BatchMessage& message : messages_) {
    const std::string object = ObjectText(message);
    text += Cat(message.label, '\n', object);
    text += object.empty() || object.ends_with('\n') ? "\n" : "\n\n";
  }
  return text;
}

}  // namespace nomad_bridge::nft
