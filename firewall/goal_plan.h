// What the kernel's ruleset lacks of a goal, and has beside it: as a batch that is yet to be committed.
//
// Errors      kKernel if the ruleset cannot be read.
// Generation  Of when it was planned; the caller ties the commit to it (netlink/nft/commit.h).
#pragma once

#include <set>
#include <string>
#include <vector>

#include "firewall/ruleset.h"
#include "netlink/nft/batch.h"

namespace nomad_bridge::firewall {

struct GoalPlan {
  nft::Batch batch;
  std::set<nft::TableFamily> is_new;  // whose table has no elements
  bool lacks_elements = false;
  std::vector<std::string> repaired;
};

// Without an owner: of the node, not of an attachment.
[[nodiscard]] inline bool IsShared(const nft::Element& element) {
  return element.comment.empty();
}

// For what is said of a table that is gone.
[[nodiscard]] std::string LostTable(const nft::Table& table);

// Tables, chains, sets and static rules; elements are not looked at.
[[nodiscard]] GoalPlan PlanTables(nft::Socket& socket, const Goal& goal);

// With elements, and the removal of what is left over.
[[nodiscard]] GoalPlan PlanAll(nft::Socket& socket,
                               const Goal& goal,
                               const DesiredElements& desired);

}  // namespace nomad_bridge::firewall
