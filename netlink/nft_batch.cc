#include "netlink/nft_batch.h"

#include <array>
#include <cstdio>

#include "base/text.h"
#include "netlink/nft_encode.h"

namespace nomad_bridge {
namespace {

using Action = NftMessage::Action;

std::string Named(const NftElement& element) {
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

std::string ObjectText(const NftMessage& message) {
  if (const auto* const set = std::get_if<NftSet>(&message.object)) {
    return Printed(*Encode(message.table, *set, 0), nftnl_set_snprintf);
  }
  if (const auto* const chain = std::get_if<NftChain>(&message.object)) {
    return Printed(*Encode(message.table, *chain), nftnl_chain_snprintf);
  }
  if (const auto* const rule = std::get_if<NftRule>(&message.object)) {
    return Printed(*Encode(message.table, message.chain, *rule), nftnl_rule_snprintf);
  }
  if (const auto* const element = std::get_if<NftElement>(&message.object)) {
    return Printed(*Encode(message.table, *element), nftnl_set_snprintf);
  }
  return {};
}

}  // namespace

void NftBatch::AddTable(const NftTableId& table) {
  messages_.push_back({.action = Action::kAddTable,
                       .table = table,
                       .label = Cat("add table ", nomad_bridge::Text(table)),
                       .chain = {},
                       .object = {}});
}

void NftBatch::DeleteTable(const NftTableId& table) {
  messages_.push_back({.action = Action::kDeleteTable,
                       .table = table,
                       .label = Cat("delete table ", nomad_bridge::Text(table)),
                       .chain = {},
                       .object = {}});
}

void NftBatch::AddSet(const NftTableId& table, const NftSet& set) {
  messages_.push_back(
      {.action = Action::kAddSet,
       .table = table,
       .label = Cat("add set ", Quoted(set.name), " to table ", nomad_bridge::Text(table)),
       .chain = {},
       .object = set});
}

void NftBatch::AddChain(const NftTableId& table, const NftChain& chain) {
  messages_.push_back(
      {.action = Action::kAddChain,
       .table = table,
       .label = Cat("add chain ", Quoted(chain.name), " to table ", nomad_bridge::Text(table)),
       .chain = {},
       .object = chain});
}

void NftBatch::FlushChain(const NftTableId& table, const std::string& chain) {
  messages_.push_back(
      {.action = Action::kFlushChain,
       .table = table,
       .label = Cat("flush chain ", Quoted(chain), " of table ", nomad_bridge::Text(table)),
       .chain = chain,
       .object = {}});
}

void NftBatch::DeleteChain(const NftTableId& table, const std::string& chain) {
  messages_.push_back(
      {.action = Action::kDeleteChain,
       .table = table,
       .label = Cat("delete chain ", Quoted(chain), " of table ", nomad_bridge::Text(table)),
       .chain = chain,
       .object = NftChain{.name = chain, .hook = {}, .rules = {}}});
}

void NftBatch::AppendRule(const NftTableId& table, const std::string& chain, const NftRule& rule) {
  messages_.push_back(
      {.action = Action::kAppendRule,
       .table = table,
       .label = Cat("add a rule to chain ", Quoted(chain), " of table ", nomad_bridge::Text(table)),
       .chain = chain,
       .object = rule});
}

void NftBatch::InsertRule(const NftTableId& table, const std::string& chain, const NftRule& rule) {
  AppendRule(table, chain, rule);
  messages_.back().action = Action::kInsertRule;
}

void NftBatch::DeleteRule(const NftTableId& table, const std::string& chain, std::uint64_t handle) {
  messages_.push_back(
      {.action = Action::kDeleteRule,
       .table = table,
       .label =
           Cat("delete a rule of chain ", Quoted(chain), " of table ", nomad_bridge::Text(table)),
       .chain = chain,
       .handle = handle,
       .object = {}});
}

void NftBatch::AddElement(const NftTableId& table, const NftElement& element) {
  messages_.push_back(
      {.action = Action::kAddElement,
       .table = table,
       .label = Cat("add ", Named(element), " to table ", nomad_bridge::Text(table)),
       .chain = {},
       .object = element});
}

void NftBatch::DeleteElement(const NftTableId& table, const NftElement& element) {
  messages_.push_back(
      {.action = Action::kDeleteElement,
       .table = table,
       .label = Cat("delete ", Named(element), " from table ", nomad_bridge::Text(table)),
       .chain = {},
       .object = element});
}

std::string NftBatch::Text() const {
  std::string text;
  for (const NftMessage& message : messages_) {
    const std::string object = ObjectText(message);
    text += Cat(message.label, '\n', object);
    text += object.empty() || object.ends_with('\n') ? "\n" : "\n\n";
  }
  return text;
}

}  // namespace nomad_bridge
