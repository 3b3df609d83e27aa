// Finds the connections that an operator means by two typed words: for each word, the possible ends
// on this node.
//
// Words    node; outside; ns=NAMESPACE,job=JOB,group=GROUP; an address; or a name of an allocation
//          on this node (named_attachments.h): its job, group, ID, interface, published port
// Root     is needed for names. Without root, no data of the node is read: labels have no address,
//          and addresses have no labels.
// Errors   UsageError for labels that cannot be read, or if there is no port; CannotTell for a word
//          that names no allocation here, or several allocations with different labels
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
  // The target's own port, or a port that the node publishes. nullopt: `to` is a published port.
  std::optional<policy::Ports> ports;
};

// Returns all connections that may be meant. A word stands for all living allocations that it
// describes, with their addresses. A published port of the node stands for the allocation behind
// it.
[[nodiscard]] std::vector<policy::Connection> ConnectionsOf(const TypedConnection& typed,
                                                            const std::optional<NodeNow>& node);

}  // namespace nomad_bridge::cli
