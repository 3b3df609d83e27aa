// The node's tables in nf_tables, assembled from all contributors (firewall/contributor.h), and the
// rows of all sets in them.
#pragma once

#include "firewall/contributor.h"
#include "netlink/nft/element.h"
#include "plugin/rules/policy_tables.h"

namespace nomad_bridge::rules {

// The policies in force, for attachments of `kinds`. `created`: the comment of new counters, for
// people.
struct NodePolicies {
  const policy::Program& program;
  const Kinds& kinds;
  std::string created = {};
};

[[nodiscard]] firewall::Tables NodeTables(int accept_mark_bit,
                                          bool has_port_filter,
                                          const NodePolicies& policies);

// A hash of those tables. If the tables in the kernel name another (firewall/about.h), another
// release made them. It is a constant because describing the tables takes longer than the rest of a
// CHECK that finds nothing changed; tests/unit/rules_tables_test.cc computes it.
constexpr const char* kTablesRevision = "aa3b005363d44977";

// Returns the row that describes the set of `element`; nullptr if no contributor has a set of that
// name. Sets made for policies share one row if their names have the same prefix.
[[nodiscard]] const firewall::OwnSet* FindRow(const nft::Element& element);

}  // namespace nomad_bridge::rules
