// The command that lets a connection pass a rule that a probe has met.
//
// Opens    The command for a rule that drops everything is that of `doctor`
//          (firewall/foreign_drops.h). Any other opens the connection's port to the subnet, and
//          stands directly before the rule, so that all rules before it stay in force.
// Errors   kKernel
#pragma once

#include "base/fix.h"
#include "plugin/causes/connection.h"
#include "plugin/causes/probe.h"

namespace nomad_bridge::causes {

// Returns a command; advice for what an operator has set in firewalld.
[[nodiscard]] Fix FixOfRule(NodeFacts& facts, const Connection& connection, const Seen& seen);

// Returns the rule as the kernel has it; an empty one for a policy, or if it is gone.
[[nodiscard]] nft::KernelRule FindRule(NodeFacts& facts,
                                       const Connection& connection,
                                       const Seen& seen);

// Returns the record of the container in which `seen` was; nullptr if it was on the node.
[[nodiscard]] const state::Record* ContainerOf(const Connection& connection, const Seen& seen);

[[nodiscard]] bool IsIptables(const nft::TableId& table);

// Returns whether it is a packet of a neighbour lookup.
[[nodiscard]] bool IsLookup(const Seen& seen);

}  // namespace nomad_bridge::causes
