// The part of explain.h that is about rules: those that end a connection, and those that lead it
// elsewhere.
//
// Errors   kKernel
#pragma once

#include "plugin/causes/cause.h"
#include "plugin/causes/probe.h"

namespace nomad_bridge::causes {

// The rule that has dropped the request or the answer, or has kept it; empty: none has.
[[nodiscard]] Causes ExplainByRule(NodeFacts& facts,
                                   const Connection& connection,
                                   const Trail& trail);

// A rule of somebody else on the node that has translated the destination.
[[nodiscard]] Causes FindRedirect(NodeFacts& facts,
                                  const Connection& connection,
                                  const Trail& trail);

// A rule of somebody else that keeps conntrack from following: nothing is translated then.
[[nodiscard]] Causes FindUntracking(NodeFacts& facts,
                                    const Connection& connection,
                                    const Trail& trail);

}  // namespace nomad_bridge::causes
