// Explains what rules do to a connection: they end it, or lead it elsewhere. Only explain.cc uses
// it.
//
// Errors   kKernel
#pragma once

#include "plugin/causes/cause.h"
#include "plugin/causes/probe.h"

namespace nomad_bridge::causes {

// Finds the rule that has dropped or kept the request or the answer; empty if none has.
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
