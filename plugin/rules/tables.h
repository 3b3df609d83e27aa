// The node's tables in nf_tables, assembled from all contributors (firewall/contributor.h), and the
// rows of all sets in them.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "firewall/contributor.h"
#include "netlink/nft/element.h"
#include "plugin/rules/policy_tables.h"

namespace nomad_bridge::rules {

// The policies in force, for attachments of `kinds`.
struct NodePolicies {
  const policy::Program& program;
  const Kinds& kinds;
};

[[nodiscard]] firewall::Tables NodeTables(int accept_mark_bit,
                                          bool has_port_filter,
                                          const NodePolicies& policies);

// A hash of those tables. If the tables in the kernel name another (firewall/about.h), another
// release made them. It is a constant because describing the tables takes longer than the rest of a
// CHECK that finds nothing changed; tests/unit/rules_tables_test.cc computes it.
constexpr const char* kTablesRevision = "1f003a542f62af87";

// Returns the names of the sets that all policies share.
[[nodiscard]] const std::set<std::string>& PolicySets();

// Returns the row that describes the set of `element`; nullptr if no contributor has a set of that
// name. Sets made for policies share one row if their names have the same prefix.
[[nodiscard]] const firewall::OwnSet* FindRow(const nft::Element& element);

// Returns the key of the network's config by which `chain` of our table of `family` drops; empty if
// it drops by policies.
[[nodiscard]] std::string_view KeyOfDrop(nft::TableFamily family, std::string_view chain);

// Returns whether `chain`, the name of a chain of ours, belongs to policies and does not judge what
// reaches `workload`.
[[nodiscard]] bool IsOfOtherPolicies(const policy::Program& program,
                                     const cni::Workload& workload,
                                     const std::string& chain);

}  // namespace nomad_bridge::rules
