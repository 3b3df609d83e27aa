// The part of our table that does not depend on attachments: its sets, chains and rules, compared with
// what the kernel holds.
//
// Errors  kKernel from reading.
#pragma once

#include <string>
#include <vector>

#include "netlink/nft/batch.h"
#include "netlink/nft/socket.h"
#include "netlink/nft/table.h"

namespace nomad_bridge::firewall {

struct SkeletonPlan {
  bool is_new = false;          // the table was missing, or of another shape: no element survives
  bool lacks_elements = false;  // so, or a set was missing
  std::vector<std::string> mismatches;  // what else was missing or different
};

// Appends to `batch` what makes the kernel's table like `table`. A chain whose rules differ is
// flushed and filled again in the same batch, so no packet is judged by half of it. A set or base
// chain of another shape cannot be changed in place: then the whole table is replaced.
[[nodiscard]] SkeletonPlan DescribeSkeleton(nft::Socket& socket,
                                            const nft::Table& table,
                                            nft::Batch& batch);

// Appends to `batch` what takes away the chains and sets that `table` does not have: another release's.
// Returns one mismatch for each.
[[nodiscard]] std::vector<std::string> DescribeRemovals(nft::Socket& socket,
                                                        const nft::Table& table,
                                                        nft::Batch& batch);

}  // namespace nomad_bridge::firewall
