// Changes to the ruleset as a plain list of messages; Socket::Commit() makes all of them or none.
//
// Order   Messages take effect in order; a message may name what an earlier one creates. A deleted
//         element or table may be added again in the same batch.
// Errors  None here. The kernel accepts AddTable, AddChain, AddSet and a shared element if the same
//         thing exists. It refuses an element that has an owner if its key exists already (EEXIST).
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
  std::string chain;                    // for messages about rules
  std::optional<std::uint64_t> handle;  // DeleteRule; without it every rule of the chain is deleted
  std::variant<std::monostate, Set, Chain, Rule, Element, Counter> object;
};

// Returns what the message does, to complete "cannot ...".
[[nodiscard]] std::string Text(const BatchMessage& message);

class Batch {
 public:
  // `flags` are NFT_TABLE_F_*. Without flags, an existing dormant table becomes active.
  void AddTable(const TableId& table, std::uint32_t flags = 0);
  void DeleteTable(const TableId& table);
  void AddSet(const TableId& table, const Set& set);
  // By then no rule may refer to the set.
  void DeleteSet(const TableId& table, const std::string& set);
  // If the counter exists, it keeps its counts and its comment.
  void AddCounter(const TableId& table, const Counter& counter);
  // By then no rule may refer to the counter.
  void DeleteCounter(const TableId& table, const std::string& counter);
  // Adds a chain without its rules. An ingress or egress hook must have one device.
  void AddChain(const TableId& table, const Chain& chain);
  // Removes every rule from the chain.
  void FlushChain(const TableId& table, const std::string& chain);
  // By then the chain must be empty, and no rule may jump to it.
  void DeleteChain(const TableId& table, const std::string& chain);
  void AppendRule(const TableId& table, const std::string& chain, const Rule& rule);
  // Adds the rule before all others.
  void InsertRule(const TableId& table, const std::string& chain, const Rule& rule);
  void DeleteRule(const TableId& table, const std::string& chain, std::uint64_t handle);
  void AddElement(const TableId& table, const Element& element);
  void DeleteElement(const TableId& table, const Element& element);

  // Appends all messages of `more`.
  void Append(Batch more);

  [[nodiscard]] const std::vector<BatchMessage>& messages() const { return messages_; }
  [[nodiscard]] bool empty() const { return messages_.empty(); }

 private:
  BatchMessage& Add(int type, int flags, const TableId& table);

  std::vector<BatchMessage> messages_;
};

// Returns the batch in the kernel's format: a begin message with the sequence number `sequence`,
// which ties the batch to `generation` if there is one; the messages, numbered from `sequence` + 1;
// an end message.
[[nodiscard]] std::vector<char> EncodeBatch(const Batch& batch,
                                            std::optional<std::uint32_t> generation,
                                            std::uint32_t sequence);

}  // namespace nomad_bridge::nft
