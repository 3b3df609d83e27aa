// What the kernel's ruleset lacks of a goal, and has beside it: as a batch that is yet to be
// committed.
//
// Errors      kKernel if the ruleset cannot be read.
// Generation  Of when it was planned; the caller ties the commit to it (netlink/nft/socket.h).
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "firewall/ruleset.h"
#include "netlink/nft/batch.h"

namespace nomad_bridge::firewall {

// Mismatch::part of an element without an owner that leads packets to another address.
constexpr std::string_view kLeadsNowhere = "leads nowhere";

struct GoalPlan {
  nft::Batch batch;
  // Whose table was missing, or of another shape: no element survives.
  std::set<nft::TableFamily> is_new;
  bool lacks_elements = false;  // so, or a set was missing
  std::vector<Mismatch> mismatches;
  nft::Batch removals;  // of chains and sets: when no element names them any more
};

// Without an owner: of the node, not of an attachment.
[[nodiscard]] inline bool IsShared(const nft::Element& element) {
  return element.comment.empty();
}

// What tells an element from all others. Refers to it.
using ElementKey = std::tuple<const nft::TableFamily&,
                              const std::string&,
                              const std::vector<std::uint8_t>&,
                              const bool&>;

[[nodiscard]] inline ElementKey KeyOf(const nft::Element& element) {
  return {element.family, element.set, element.key, element.ends_interval};
}

// Chains and sets in a table that it does not have: another release's.
enum class LeftOver { kKeep, kRemove };

// Tables, chains, sets and static rules; elements are not looked at. A chain whose rules differ is
// flushed and filled again in the same batch, so no packet is judged by half of it. A set or base
// chain of another shape cannot be changed in place: then the whole table is replaced.
[[nodiscard]] GoalPlan PlanTables(nft::Socket& socket,
                                  const Goal& goal,
                                  LeftOver left_over = LeftOver::kKeep);

// With elements, and the removal of what is left over.
[[nodiscard]] GoalPlan PlanAll(nft::Socket& socket,
                               const Goal& goal,
                               const DesiredElements& desired);

}  // namespace nomad_bridge::firewall
