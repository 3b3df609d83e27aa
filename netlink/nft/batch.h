// What is to change in the ruleset, as a plain list of messages; Socket::Commit() does it, all
// or nothing.
//
// Order   Messages take effect in their order; what one creates, the next may name. A deleted
//         element or table may be added again in the same batch.
// Errors  None here. The kernel accepts AddTable, AddChain, AddSet and a shared element if the same
//         thing exists; an element with an owner whose key is taken it refuses (EEXIST).
// Source  linux/netfilter/nf_tables.h; linux/netfilter/nfnetlink.h (batches).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "netlink/nft/element.h"
#include "netlink/nft/rule.h"
#include "netlink/nft/table.h"

namespace nomad_bridge::nft {

struct BatchMessage {
  int type = 0;   // NFT_MSG_...
  int flags = 0;  // NLM_F_...
  TableId table;
  std::uint32_t table_flags = 0;        // of AddTable
  std::string chain;                    // of what is about rules
  std::optional<std::uint64_t> handle;  // DeleteRule; without it every rule of the chain is meant
  std::variant<std::monostate, Set, Chain, Rule, Element, Counter> object;
};

// What it does, to complete "cannot ...".
[[nodiscard]] std::string Text(const BatchMessage& message);

class Batch {
 public:
  // `flags`: NFT_TABLE_F_*; without any it wakes a dormant one.
  void AddTable(const TableId& table, std::uint32_t flags = 0);
  void DeleteTable(const TableId& table);
  void AddSet(const TableId& table, const Set& set);
  // By then no rule may name it.
  void DeleteSet(const TableId& table, const std::string& set);
  // One that is there goes on counting, with the comment that it has.
  void AddCounter(const TableId& table, const Counter& counter);
  // By then no rule may refer to it.
  void DeleteCounter(const TableId& table, const std::string& counter);
  // Without its rules; of an ingress or egress hook with one device.
  void AddChain(const TableId& table, const Chain& chain);
  // Takes every rule out of the chain.
  void FlushChain(const TableId& table, const std::string& chain);
  // By then it must be empty, and no rule may jump to it.
  void DeleteChain(const TableId& table, const std::string& chain);
  void AppendRule(const TableId& table, const std::string& chain, const Rule& rule);
  // In front of all others.
  void InsertRule(const TableId& table, const std::string& chain, const Rule& rule);
  void DeleteRule(const TableId& table, const std::string& chain, std::uint64_t handle);
  void AddElement(const TableId& table, const Element& element);
  void DeleteElement(const TableId& table, const Element& element);

  // All of `more`, behind what is there.
  void Append(Batch more);

  [[nodiscard]] const std::vector<BatchMessage>& messages() const { return messages_; }
  [[nodiscard]] bool empty() const { return messages_.empty(); }

 private:
  BatchMessage& Add(int type, int flags, const TableId& table);

  std::vector<BatchMessage> messages_;
};

// The batch for the kernel: begin, tied to `generation`, under the number `sequence`; the messages,
// numbered from `sequence` + 1; end.
[[nodiscard]] std::vector<char> EncodeBatch(const Batch& batch,
                                            std::uint32_t generation,
                                            std::uint32_t sequence);

}  // namespace nomad_bridge::nft
