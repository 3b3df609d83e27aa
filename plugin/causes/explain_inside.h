// Explains what happens inside the containers at both ends. Only explain.cc and rule_cause.cc
// use it.
//
// Errors   kKernel
#pragma once

#include "base/finding.h"
#include "plugin/causes/probe.h"

namespace nomad_bridge::causes {

// Explains why the request does not leave the client's container.
[[nodiscard]] FindingList ExplainLeaving(NodeFacts& facts,
                                         const Connection& connection,
                                         const Trail& trail);

// Explains why frames do not get into the container of `record`.
[[nodiscard]] FindingList ExplainEntering(const state::Record& record);

// Explains why the request gets into the server's container, but to no service.
[[nodiscard]] FindingList ExplainInContainer(const Connection& connection, const Trail& trail);

// Explains why a service gets the request and does not answer, or refuses.
[[nodiscard]] FindingList ExplainService(NodeFacts& facts,
                                         const Connection& connection,
                                         const Trail& trail);

// Explains why the answer does not leave the server's container.
[[nodiscard]] FindingList ExplainAnswer(NodeFacts& facts,
                                        const Connection& connection,
                                        const Trail& trail);

}  // namespace nomad_bridge::causes
