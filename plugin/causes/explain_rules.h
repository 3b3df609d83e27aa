// The part of explain.h about rules: rules that end a connection, and rules that lead it elsewhere.
//
// Errors   kKernel
#pragma once

#include "plugin/causes/cause.h"
#include "plugin/causes/probe.h"

namespace nomad_bridge::causes {

// Finds the rule that has dropped the request or the answer, or has kept it; empty if none has.
[[nodiscard]] Causes ExplainByRule(NodeFacts& facts,
                                   const Connection& connection,
                                   const Trail& trail);

// Finds somebody else's rule on the node that has translated the destination.
[[nodiscard]] Causes FindRedirect(NodeFacts& facts,
                                  const Connection& connection,
                                  const Trail& trail);

// Finds somebody else's rule that keeps conntrack from tracking: then nothing is translated.
[[nodiscard]] Causes FindUntracking(NodeFacts& facts,
                                    const Connection& connection,
                                    const Trail& trail);

}  // namespace nomad_bridge::causes
