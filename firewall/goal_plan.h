// Plans the changes that turn the kernel's ruleset into a goal, as a batch that the caller commits.
//
// Errors      kKernel if the ruleset cannot be read.
// Generation  The generation at the time of planning; the caller ties the commit to it
//             (netlink/nft/socket.h).
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "firewall/ruleset.h"
#include "netlink/nft/batch.h"

namespace nomad_bridge::firewall {

// The Mismatch::part of an element without an owner that leads packets to another address.
constexpr std::string_view kLeadsNowhere = "leads nowhere";

struct GoalPlan {
  nft::Batch batch;
  // Families whose table was missing or had another shape: no element survives.
  std::set<nft::TableFamily> is_new;
  bool lacks_elements = false;  // is_new is not empty, or a set was missing
  std::vector<Mismatch> mismatches;
  // Deletes chains, sets and counters. Must come after the deletion of elements that name them.
  nft::Batch removals;
};

// Shared elements have no owner: they belong to the node, not to an attachment.
[[nodiscard]] inline bool IsShared(const nft::Element& element) {
  return element.comment.empty();
}

// Identifies an element. Consists of references into the element.
using ElementKey = std::tuple<const nft::TableFamily&,
                              const std::string&,
                              const std::vector<std::uint8_t>&,
                              const bool&>;

[[nodiscard]] inline ElementKey KeyOf(const nft::Element& element) {
  return {element.family, element.set, element.key, element.ends_interval};
}

// What happens to chains and sets that the wanted table does not have: another release made them.
enum class LeftOver { kKeep, kRemove };

// Plans tables, chains, sets and static rules, but no elements. A chain whose rules differ is
// flushed and filled again in the same batch, so no packet is judged by half of it. A set or base
// chain of another shape cannot be changed in place: then the whole table is replaced.
[[nodiscard]] GoalPlan PlanTables(nft::Socket& socket,
                                  const Goal& goal,
                                  LeftOver left_over = LeftOver::kKeep);

// Plans elements, too, and the removal of what is left over.
[[nodiscard]] GoalPlan PlanAll(nft::Socket& socket,
                               const Goal& goal,
                               const DesiredElements& desired);

}  // namespace nomad_bridge::firewall
