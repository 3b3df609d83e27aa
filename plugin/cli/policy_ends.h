// The ends of a connection as an operator types them, and what they stand for on this node.
//
// Words    node; outside; ns=NAMESPACE,job=JOB,group=GROUP; an address; or a name of an allocation
//          that lives here (named_attachments.h): its job, group, ID, interface, published port
// Without  root nothing is known of the node: labels and addresses stand for themselves
// Errors   UsageError for labels that cannot be read, or without a port; CannotTell for a word that
//          names no allocation here, or several allocations with different labels
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plugin/cli/inventory.h"
#include "plugin/cli/policy_view.h"
#include "plugin/policy/judge.h"

namespace nomad_bridge::cli {

// The node as it is now.
struct NodeNow {
  Inventory inventory;
  Holders holders;
};

struct TypedConnection {
  std::string from;
  std::string to;
  // The target's own, or one that the node publishes; nullopt: `to` is a published port.
  std::optional<policy::Ports> ports;
};

// Returns all connections that may be meant: a word stands for all living allocations that it
// describes, with their addresses; a published port of the node stands for the allocation behind
// it.
[[nodiscard]] std::vector<policy::Connection> ConnectionsOf(const TypedConnection& typed,
                                                            const std::optional<NodeNow>& node);

}  // namespace nomad_bridge::cli
