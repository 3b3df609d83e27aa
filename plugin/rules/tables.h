// The node's tables in nf_tables, and the table of all sets in them: made up of what each
// contributor (firewall/contributor.h) has in them.
#pragma once

#include "firewall/contributor.h"
#include "netlink/nft/element.h"

namespace nomad_bridge::rules {

[[nodiscard]] firewall::Tables NodeTables(int accept_mark_bit, bool has_port_filter);

// A hash of those tables: another release's are told by it. Written down because describing them
// takes longer than all else that a quiet CHECK does; tests/unit/rules_tables_test.cc computes it.
constexpr const char* kTablesRevision = "f30d9c8f23e784b7";

// The row of the set that has `element`; nullptr if no contributor has one of that name.
[[nodiscard]] const firewall::OwnSet* FindSet(const nft::Element& element);

}  // namespace nomad_bridge::rules
