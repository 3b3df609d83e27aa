// What is to change in the ruleset, as a plain list of messages; NftSocket::Commit() does it, all
// or nothing.
//
// Order   Messages take effect in their order; what one makes, the next may name. A deleted element
//         or table may be added again in the same batch.
// Exists  AddTable, AddChain and AddSet are content if the same thing is there already; AddElement
//         is not: a taken key is refused (EEXIST).
// Labels  Every message carries what it does, to complete "cannot ...".
// Source  linux/netfilter/nf_tables.h; linux/netfilter/nfnetlink.h (batches).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "netlink/nft_element.h"
#include "netlink/nft_rule.h"
#include "netlink/nft_table.h"

namespace nomad_bridge {

struct NftMessage {
  enum class Action {
    kAddTable,
    kDeleteTable,
    kAddSet,
    kAddChain,
    kFlushChain,
    kDeleteChain,
    kAppendRule,
    kInsertRule,
    kDeleteRule,
    kAddElement,
    kDeleteElement,
  };

  Action action = Action::kAddTable;
  NftTableId table;
  std::string label;
  std::string chain;         // the rule actions, kFlushChain and kDeleteChain
  std::uint64_t handle = 0;  // kDeleteRule
  std::variant<std::monostate, NftSet, NftChain, NftRule, NftElement> object;
};

class NftBatch {
 public:
  void AddTable(const NftTableId& table);
  void DeleteTable(const NftTableId& table);
  void AddSet(const NftTableId& table, const NftSet& set);
  // Without its rules.
  void AddChain(const NftTableId& table, const NftChain& chain);
  // Takes every rule out of the chain.
  void FlushChain(const NftTableId& table, const std::string& chain);
  // It must be empty, and nobody may jump to it: by then.
  void DeleteChain(const NftTableId& table, const std::string& chain);
  void AppendRule(const NftTableId& table, const std::string& chain, const NftRule& rule);
  // In front of all others.
  void InsertRule(const NftTableId& table, const std::string& chain, const NftRule& rule);
  void DeleteRule(const NftTableId& table, const std::string& chain, std::uint64_t handle);
  void AddElement(const NftTableId& table, const NftElement& element);
  void DeleteElement(const NftTableId& table, const NftElement& element);

  [[nodiscard]] const std::vector<NftMessage>& messages() const { return messages_; }
  [[nodiscard]] bool empty() const { return messages_.empty(); }

  // One paragraph per message: its label, then the object as libnftnl prints it (as `nft
  // --debug=netlink` does).
  [[nodiscard]] std::string Text() const;

 private:
  std::vector<NftMessage> messages_;
};

}  // namespace nomad_bridge
