// The node's tables in nf_tables, and the table of all sets in them: made up of what each
// contributor (firewall/contributor.h) has in them.
#pragma once

#include "firewall/contributor.h"
#include "netlink/nft/element.h"
#include "plugin/rules/policy_tables.h"

namespace nomad_bridge::rules {

// The policies in force, for attachments of `kinds`; `created` is for people, beside counters that
// are new.
struct NodePolicies {
  const policy::Program& program;
  const Kinds& kinds;
  std::string created = {};
};

[[nodiscard]] firewall::Tables NodeTables(int accept_mark_bit,
                                          bool has_port_filter,
                                          const NodePolicies& policies);
// Without policies.
[[nodiscard]] firewall::Tables NodeTables(int accept_mark_bit, bool has_port_filter);
// Which tables those are, in the same order.
[[nodiscard]] std::vector<nft::TableId> NodeTableIds(bool has_port_filter);

// A hash of those tables: another release's are told by it. Written down because describing them
// takes longer than all else that a quiet CHECK does; tests/unit/rules_tables_test.cc computes it.
constexpr const char* kTablesRevision = "a8263d9accaee067";

// The row of the set that has `element`; nullptr if no contributor has one of that name. Sets made
// for policies have a row for all that begin alike.
[[nodiscard]] const firewall::OwnSet* FindSet(const nft::Element& element);

}  // namespace nomad_bridge::rules
